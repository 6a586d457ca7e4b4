#!/usr/bin/env bash
# CLUSTER, GRPE-Tiny: no value in Park et al. 2022.
# Settings: rates, decay and L from the paper, which states no others; nothing is released
# for this benchmark. The rest is our choice: batch size and epochs of Menegaux et al. 2023
# (Table 6), a tenth of the updates as warm-up, and dropout, weight decay, noise and no
# clipping as in the released zinc.py. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=grpe_tiny GRAPHS=10000 METRIC=weighted_accuracy DIRECTION=max
TASK=node_prediction
paper_budget 100 16 # 625 updates each

recipe --criterion weighted_cross_entropy --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 --perturb-noise 0.2 \
    "${adam[@]}" --clip-norm 0 --weight-decay 1e-3 \
    $(linear_decay 2e-4 $(($(updates) / 10)) "$(updates)") "$@"
