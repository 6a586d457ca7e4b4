#!/usr/bin/env bash
# PCQM4Mv2, TokenGT: Kim et al. 2022 (arXiv:2207.02505), validation MAE 0.0910 eV, the released
# model with 16 Laplacian eigenvectors. 8 RTX 3090, 3 days.
# Settings: its command, batch 128 on each of 8 GPUs, 1,000,000 updates.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=tokengt_base GRAPHS=3378606 METRIC=mae TEST_SUBSET=valid
HALF=--fp16 # as its command
paper_budget 303 1024 # 3300 updates each, 1,000,000 in all

recipe --criterion l1_loss --target-scale none \
    --lap-node-id --lap-node-id-k 16 --lap-node-id-sign-flip --lap-node-id-eig-dropout 0.2 \
    --stochastic-depth --prenorm \
    "${adam[@]}" --clip-norm 5 --weight-decay 0.1 \
    $(linear_decay 2e-4 "$(scaled 60000)" "$(scaled 1000000)") "$@"
