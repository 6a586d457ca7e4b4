#!/usr/bin/env bash
# molpcba, GRPE-Standard fine-tuned: Park et al. 2022, Table 4, test AP 30.77 +- 0.07 % (5 runs).
# Settings: rates, decay and L from the paper; of the rest, which it does not state, batch
# size, warm-up and the largest number of epochs from Graphormer (its Table 8), and dropout
# as in the pre-training. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molpcba ARCH=grpe_standard GRAPHS=350343 METRIC=ap DIRECTION=max
paper_budget 10 256
pretrained_by pcqm4m/grpe_standard

recipe --criterion binary_logloss "${pretrained[@]}" --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 2e-4 $(($(updates) * 6 / 100)) "$(updates)") "$@"
