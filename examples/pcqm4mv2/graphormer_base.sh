#!/usr/bin/env bash
# PCQM4Mv2, Graphormer: Menegaux et al. 2023, Table 3, validation MAE 0.0864 eV, not trained
# by its authors: it is the second version of Graphormer, whose page says 0.0865 and 48.3M.
# Settings: its command (examples/property_prediction/pcqv2.sh), which names the rates of
# dropout that the preset has and no end; 300 epochs from Table 7 of Ying et al. 2021, for
# PCQM4M. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=graphormer_base GRAPHS=3378606 METRIC=mae TEST_SUBSET=valid
HALF=--fp16 # as its command
paper_budget 300 1024 # 3300 updates each; the decay would end at 1,000,000

recipe --criterion l1_loss --target-scale none \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 2e-4 "$(scaled 60000)" "$(scaled 1000000)") "$@"
