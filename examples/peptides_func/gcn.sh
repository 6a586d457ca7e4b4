#!/usr/bin/env bash
# Peptides-func, GCN: Tönshoff et al. 2023, test AP 68.60 % (mean over ten classes).
# Settings: the released code (toenshoff/LRGB, configs/LRGB-tuned/peptides-func-GCN.yaml) and,
# for the norm of gradients, 1, GraphGym's default. Its rate changes per epoch, here per
# update. 482,686 weights. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=peptides-func ARCH=gcn_peptides GRAPHS=10873 METRIC=ap
paper_budget 250 200 # 55 updates an epoch

recipe --criterion binary_logloss "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
