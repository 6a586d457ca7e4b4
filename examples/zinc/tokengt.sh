#!/usr/bin/env bash
# ZINC, TokenGT (Kim et al. 2022, arXiv:2207.02505, has no figure for ZINC).
# Our choice: the small size with Laplacian identifiers; dropout, schedule and batches as
# grpe_small.sh, in batches of 32.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=tokengt_small GRAPHS=10000 METRIC=mae
paper_budget 2000 32 # of gps_zinc.sh

recipe --criterion l1_loss --target-scale none \
    "${adam[@]}" --clip-norm 5 --weight-decay 1e-3 \
    $(linear_decay 2e-4 "$(scaled_epochs 200)" "$(updates)") "$@"
