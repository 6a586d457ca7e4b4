#!/usr/bin/env bash
# molhiv, Graphormer with FLAG: Ying et al. 2021, Table 3, test ROC-AUC 80.51 +- 0.53 %
# (10 runs). Settings: Table 9; of its grids for FLAG m = 2, alpha = 0.2 and no projection,
# which the table sets off and hiv.sh of the first version of the released code has (but
# entry.py there does not pass the last one on, and 1e-3 acts: not copied). The end of the
# rates, weight decay 0 and no clipping, which it does not state, from there, too. Hardware,
# time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=graphormer_paper_base GRAPHS=32901 METRIC=roc_auc
TASK=graph_prediction_with_flag
HALF=--amp # --precision 16 of the released first version
paper_budget 8 128
pretrained_by pcqm4m/graphormer_base

#      setting paper released
either warmup  0.06  0.1 # of the updates

recipe --criterion binary_logloss "${pretrained[@]}" \
    --dropout 0.1 --attention-dropout 0.1 --flag-m 2 --flag-step-size 0.2 --flag-mag 0 \
    "${adam[@]}" --clip-norm 0 --weight-decay 0 \
    $(linear_decay 2e-4 "$(share "$warmup")" "$(updates)") "$@"
