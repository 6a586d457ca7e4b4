#!/usr/bin/env bash
# ZINC, Graphormer-slim: Ying et al. 2021, Table 4, test MAE 0.122 +- 0.006.
# Settings: Table 10. Hardware and time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=graphormer_paper_slim GRAPHS=10000 METRIC=mae
paper_budget 10000 256 # 40 updates each, 400,000 in all

recipe --criterion l1_loss \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0.01 \
    $(linear_decay 2e-4 "$(scaled 40000)" "$(updates)") "$@"
