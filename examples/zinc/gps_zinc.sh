#!/usr/bin/env bash
# ZINC, GPS: Rampasek et al. 2022, test MAE 0.070 +- 0.004 (Menegaux et al. 2023, Table 1).
# Settings: the released code (rampasek/GraphGPS): AdamW, batches, epochs and the schedule.
# Our choice: raw targets, and no clipping. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=gps_zinc GRAPHS=10000 METRIC=mae
paper_budget 2000 32 # 313 updates an epoch

recipe --criterion l1_loss --target-scale none "${adam[@]}" --weight-decay 1e-5 \
    $(cosine 1e-3 "$(scaled_epochs 50)") "$@"
