#!/usr/bin/env bash
# ZINC, Graphormer-slim: Ying et al. 2021, Table 4, test MAE 0.122 +- 0.006.
# Settings: Table 10; the 20 edges of a path, raw targets and the end of the rates, which it
# does not state, from the first version of the released code (README of its
# examples/benchmarking-gnns), as is the column "released". That validates every tenth epoch,
# this recipe every one. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=graphormer_paper_slim GRAPHS=10000 METRIC=mae
HALF=--amp # --precision 16 of the released first version
paper_budget 10000 256 # 40 updates each, 400,000 in all

#      setting       paper released
either input_dropout 0     0.1
either clip          5     0

recipe --criterion l1_loss --target-scale none --multi-hop-max-dist 20 \
    --dropout 0.1 --attention-dropout 0.1 --input-dropout "$input_dropout" \
    "${adam[@]}" --clip-norm "$clip" --weight-decay 0.01 \
    $(linear_decay 2e-4 "$(scaled 40000)" "$(updates)") "$@"
