#!/usr/bin/env bash
# CLUSTER, CSA: Menegaux et al. 2023, Table 2, weighted accuracy 79.175 +- 0.126 % (10 runs).
# Settings: Table 6, AdamW; clipping at 1 from the released code (train/custom_train.py). In
# the paper: one V100, 122 s an epoch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=cgt_cluster GRAPHS=10000 METRIC=weighted_accuracy
TASK=node_prediction
paper_budget 100 16 # 625 updates an epoch

recipe --criterion weighted_cross_entropy \
    "${adam[@]}" --clip-norm 1 --weight-decay 1e-5 \
    $(cosine 5e-4 "$(scaled_epochs 5)") "$@"
