#!/usr/bin/env bash
# PATTERN, CSA: Menegaux et al. 2023, Table 2, weighted accuracy 87.011 +- 0.036 % (10 runs).
# Settings: Table 6, AdamW; gradients are clipped at 1 as in GraphGPS, on which its code is
# built. In the paper: one V100, 56 s an epoch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=cgt_pattern GRAPHS=10000 METRIC=weighted_accuracy DIRECTION=max
TASK=node_prediction
paper_budget 100 32 # 313 updates an epoch
warmup=$(($(updates 5) * EPOCHS / PAPER_EPOCHS))

recipe --criterion weighted_cross_entropy \
    --optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-8 --clip-norm 1 --weight-decay 1e-5 \
    --lr 5e-4 --lr-scheduler cosine --warmup-updates $warmup \
    --lr-period-updates $(($(updates) - warmup)) --max-epoch "$EPOCHS" "$@"
