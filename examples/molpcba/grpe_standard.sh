#!/usr/bin/env bash
# molpcba, GRPE-Standard fine-tuned: Park et al. 2022, Table 4, test AP 30.77 +- 0.07 % (5 runs).
# Settings: rates, decay and L from the paper; batch size, epochs, warm-up, dropout, weight
# decay and clipping, which it does not state, from the released pcba.sh. That asks for
# attention dropout 0.3, but its gpp.py does not pass this on, and 0.1 acts. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molpcba ARCH=grpe_standard GRAPHS=350343 METRIC=ap
paper_budget 200 256
pretrained_by pcqm4m/grpe_standard

#      setting paper released
either rate    2e-4  3e-4

recipe --criterion binary_logloss "${pretrained[@]}" --max-hop 5 \
    --dropout 0.3 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay "$rate" "$(scaled_epochs 3)" "$(updates)") "$@"
