#!/usr/bin/env bash
# Peptides-func, CGT of 484,902 weights: no published result.
# Settings: those of gcn.sh and its mean of nodes, and 14 layers to have nearly 500,000
# weights (our choice).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=peptides-func ARCH=cgt_zinc GRAPHS=10873 METRIC=ap
paper_budget 250 200 # 55 updates an epoch

recipe --criterion binary_logloss --encoder-layers 14 --readout mean \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
