#!/usr/bin/env bash
# PATTERN, Graphormer-slim: Park et al. 2022, Table 5, weighted accuracy 86.650 +- 0.033 % (5 runs).
# Settings: the paper states none for this model; those of the GRPE recipes beside it.
# Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=graphormer_paper_slim GRAPHS=10000 METRIC=weighted_accuracy DIRECTION=max
TASK=node_prediction
paper_budget 100 32 # 313 updates each

recipe --criterion weighted_cross_entropy \
    --dropout 0.1 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0.01 \
    $(linear_decay 2e-4 $(($(updates) / 10)) "$(updates)") "$@"
