#!/usr/bin/env bash
# ZINC, Exphormer (Shirzad et al. 2023, arXiv:2303.06147, has no figure for ZINC).
# Our choice: everything but the attention as gps_zinc.sh; an expander of degree 5 and one
# virtual node, as for the paper's superpixels.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=gps_zinc GRAPHS=10000 METRIC=mae
paper_budget 2000 32 # of gps_zinc.sh

recipe --attention edges --edge-sets random_expander:5 --virtual-nodes 1 \
    --criterion l1_loss --target-scale none "${adam[@]}" --weight-decay 1e-5 \
    $(cosine 1e-3 "$(scaled_epochs 50)") "$@"
