#!/usr/bin/env bash
# PCQM4M, CSA-deep: no value in the four papers, which train it on PCQM4Mv2.
# Settings: our choice, those for PCQM4Mv2, with the official splits. In the paper: one
# V100, 1,900 s an epoch of PCQM4Mv2.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4m ARCH=cgt_deep GRAPHS=3045360 METRIC=mae TEST_SUBSET=valid
paper_budget 150 256 # 11896 updates an epoch

recipe --criterion l1_loss --target-scale none \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 1e-4 "$(scaled_epochs 10)") "$@"
