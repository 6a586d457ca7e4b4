#!/usr/bin/env bash
# PATTERN, Graphormer-slim: Park et al. 2022, Table 5, weighted accuracy 86.650 +- 0.033 %.
# Settings: the paper states none for this model, and nothing is released for this
# benchmark. Our choice: batch size and epochs of Menegaux et al. 2023 (Table 6), a tenth of
# the updates as warm-up, and the rest as for ZINC (Table 10 of Ying et al. 2021), with the
# preset's paths of 5 edges and 64 degrees, of which the last is "63 or more". Hardware,
# time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=graphormer_paper_slim GRAPHS=10000 METRIC=weighted_accuracy
TASK=node_prediction
paper_budget 100 32 # 313 updates each

recipe --criterion weighted_cross_entropy \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0.01 \
    $(linear_decay 2e-4 $(($(updates) / 10)) "$(updates)") "$@"
