#!/usr/bin/env bash
# molhiv, GRPE-Large fine-tuned: no value in Park et al. 2022.
# Settings: rates, decay and L from the paper; all else, which it does not state, from
# Graphormer (its Table 9). Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=grpe_large GRAPHS=32901 METRIC=roc_auc DIRECTION=max
paper_budget 8 128
pretrained_by pcqm4m/grpe_large

recipe --criterion binary_logloss "${pretrained[@]}" --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 2e-4 $(($(updates) * 6 / 100)) "$(updates)") "$@"
