#!/usr/bin/env bash
# PCQM4M, Graphormer-small: Ying et al. 2021, Table 1, validation MAE 0.1264 eV.
# Settings: Table 7 (section 4.1 prints another first beta of Adam, 0.99). Raw targets,
# paths of 5 edges and the end of the rates, which the paper does not state, and the column
# "released" from the README of the first version of the released code. In the paper:
# 8 V100, about 2 days.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4m ARCH=graphormer_paper_small GRAPHS=3045360 METRIC=mae TEST_SUBSET=valid
HALF=--amp # --precision 16 of the released first version
paper_budget 300 1024 # 2974 updates each; the decay would end at 1,000,000

#      setting       paper released
either input_dropout 0     0.1
either weight_decay  0     0.01

recipe --criterion l1_loss --target-scale none \
    --dropout 0.1 --attention-dropout 0.1 --input-dropout "$input_dropout" \
    "${adam[@]}" --clip-norm 5 --weight-decay "$weight_decay" \
    $(linear_decay 3e-4 "$(scaled 60000)" "$(scaled 1000000)") "$@"
