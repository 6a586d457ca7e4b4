#!/usr/bin/env bash
# molhiv, PNA: Ying et al. 2021, Table 3, test ROC-AUC 79.05 +- 1.32 %.
# Settings: the released code of Corso et al. 2020 (lukecavabarrett/pna, realworld_benchmark:
# the command of its README for OGB's leaderboard, and configs/*_PNA_HIV.json): 4 simple layers
# of width 80, dropout 0.3, mean read-out, batch 128, Adam 0.01 with L2 decay 3e-6, halved when
# the validation ROC-AUC has not risen for 20 epochs, until 1e-4; at most 200 epochs; the best
# epoch gives the number. Difference: no limit of 48 hours. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=pna_molhiv GRAPHS=32901 METRIC=roc_auc
paper_budget 200 128

recipe --criterion binary_logloss \
    --optimizer adam_l2 "${adam[@]:2}" --weight-decay 3e-6 $(plateau 0.01 20 1e-4) "$@"
