#!/usr/bin/env bash
# ZINC, CSA with rings: Menegaux et al. 2023, Table 1, test MAE 0.056 +- 0.002 (10 runs).
# Settings: Table 6, AdamW; gradients are clipped at 1 as in GraphGPS, on which its code is
# built. In the paper: one V100, 21 s an epoch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=cgt_zinc_rings GRAPHS=10000 METRIC=mae
paper_budget 2000 32 # 313 updates an epoch
warmup=$(($(updates 50) * EPOCHS / PAPER_EPOCHS))

recipe --criterion l1_loss \
    --optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-8 --clip-norm 1 --weight-decay 1e-5 \
    --lr 1e-3 --lr-scheduler cosine --warmup-updates $warmup \
    --lr-period-updates $(($(updates) - warmup)) --max-epoch "$EPOCHS" "$@"
