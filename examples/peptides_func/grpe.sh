#!/usr/bin/env bash
# Peptides-func, GRPE of 463,450 weights: no published result.
# Settings: those of gcn.sh, and 11 layers to have nearly 500,000 weights (our choice).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=peptides-func ARCH=grpe_small GRAPHS=10873 METRIC=ap
paper_budget 250 200 # 55 updates an epoch

recipe --criterion binary_logloss --encoder-layers 11 \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
