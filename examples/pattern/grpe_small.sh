#!/usr/bin/env bash
# PATTERN, GRPE-Small: Park et al. 2022, Table 5, weighted accuracy 87.020 +- 0.042 % (5 runs).
# Settings: rates, decay and L from the paper; of the rest, which it does not state, batch
# size and epochs from Menegaux et al. 2023 (Table 6), and warm-up, weight decay, dropout
# and clipping as for ZINC. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=grpe_small GRAPHS=10000 METRIC=weighted_accuracy DIRECTION=max
TASK=node_prediction
paper_budget 100 32 # 313 updates each

recipe --criterion weighted_cross_entropy --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0.01 \
    $(linear_decay 2e-4 $(($(updates) / 10)) "$(updates)") "$@"
