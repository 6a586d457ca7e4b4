#!/usr/bin/env bash
# PCQM4Mv2, Graphormer: Menegaux et al. 2023, Table 3, validation MAE 0.0864 eV, not trained
# by its authors.
# Settings: those for PCQM4M, Table 7 of Ying et al. 2021. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=graphormer_base GRAPHS=3378606 METRIC=mae TEST_SUBSET=valid
paper_budget 300 1024 # 3300 updates each; the decay would end at 1,000,000

recipe --criterion l1_loss --pre-layernorm \
    --dropout 0.1 --attention-dropout 0.1 --input-dropout 0 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 2e-4 "$(scaled 60000)" "$(scaled 1000000)") "$@"
