#!/usr/bin/env bash
# PATTERN, Exphormer: Shirzad et al. 2023 (arXiv:2303.06147), whose figure is not here.
# Settings: the released configs/Exphormer at 1b43962. Its eigenvectors enter GatedGCN
# (EquivStableLapPE), here the nodes; its rate changes per epoch, here per update.
# Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=exphormer_pattern GRAPHS=10000 METRIC=weighted_accuracy
TASK=node_prediction
paper_budget 120 32 # 313 updates an epoch

recipe --criterion weighted_cross_entropy \
    "${adam[@]}" --clip-norm 1 --weight-decay 2e-5 \
    $(cosine 2e-4 "$(scaled_epochs 5)") "$@"
