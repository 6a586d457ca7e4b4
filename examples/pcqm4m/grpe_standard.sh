#!/usr/bin/env bash
# PCQM4M, GRPE-Standard: Park et al. 2022, Table 7, validation MAE 0.1225 eV.
# Settings: epochs, warm-up, rates and L from the paper; batch size, dropout, weight decay,
# clipping and raw targets, which it does not state, from the released pcqm4m_v1.sh. That
# validates every tenth epoch up to the 200th, this recipe every one. Hardware, time: not
# stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4m ARCH=grpe_standard GRAPHS=3045360 METRIC=mae TEST_SUBSET=valid
paper_budget 400 1024 # 2974 updates each

recipe --criterion l1_loss --target-scale none --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 2e-4 "$(scaled_epochs 3)" "$(updates)") "$@"
