#!/usr/bin/env bash
# ZINC, GRIT: Ma et al. 2023 (arXiv:2305.17589).
# Settings: the released zinc-GRIT-RRWP.yaml; clipping at 1 and raw targets are GraphGym's.
# Its rate changes per epoch, here per update. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=grit_zinc GRAPHS=10000 METRIC=mae
paper_budget 2000 32 # 313 updates an epoch

recipe --criterion l1_loss --target-scale none \
    "${adam[@]}" --clip-norm 1 --weight-decay 1e-5 \
    $(cosine 1e-3 "$(scaled_epochs 50)") "$@"
