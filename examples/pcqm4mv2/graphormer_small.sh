#!/usr/bin/env bash
# PCQM4Mv2, Graphormer-small: no value in the four papers, which train it on PCQM4M.
# Settings: our choice, those for PCQM4M (Table 7 of Ying et al. 2021), with raw targets.
# Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=graphormer_paper_small GRAPHS=3378606 METRIC=mae TEST_SUBSET=valid
HALF=--amp # --precision 16 of the released first version
paper_budget 300 1024 # 3300 updates each; the decay would end at 1,000,000

recipe --criterion l1_loss --target-scale none \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 3e-4 "$(scaled 60000)" "$(scaled 1000000)") "$@"
