#!/usr/bin/env bash
# PCQM4Mv2, CSA-deep: Menegaux et al. 2023, Table 3, validation MAE 0.0853 eV (one run).
# Settings: Table 6, AdamW; gradients are clipped at 1 as in GraphGPS, on which its code is
# built. In the paper: one V100, 1,900 s an epoch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=cgt_deep GRAPHS=3378606 METRIC=mae TEST_SUBSET=valid
paper_budget 150 256 # 13198 updates an epoch

recipe --criterion l1_loss \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 1e-4 "$(scaled_epochs 10)") "$@"
