#!/usr/bin/env bash
# ZINC, GRPE-Small: Park et al. 2022, Table 2, test MAE 0.094 +- 0.002 (5 runs).
# Settings: rates, decay and L from the paper; all else, which it does not state, from the
# released zinc.py: batch size, updates, warm-up, dropout, weight decay, noise on the node
# vectors, raw targets and no clipping. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=grpe_small GRAPHS=10000 METRIC=mae
paper_budget 10000 256 # 40 updates each, 400,000 in all

recipe --criterion l1_loss --target-scale none --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 --perturb-noise 0.2 \
    "${adam[@]}" --clip-norm 0 --weight-decay 1e-3 \
    $(linear_decay 2e-4 "$(scaled 40000)" "$(updates)") "$@"
