#!/usr/bin/env bash
# Graphormer, encodings: Ying et al. 2021, Table 5, validation MAE on PCQM4M, 12 layers,
# 100,000 updates; the warm-up, which is not stated, has the same share of them as in Table 7.
# With EPOCHS or BATCH_SIZE the recipe's schedule is scaled to them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=pcqm4m/graphormer_base
budget=(--max-update 100000 --total-num-update 100000 --warmup-updates 6000)
if [[ -n ${EPOCHS:-}${BATCH_SIZE:-} ]]; then
    export EPOCHS="${EPOCHS:-34}" # 100,000 updates of the paper's batch
    budget=()
fi

variant none --node-relation none --node-encodings none --edge-type none "${budget[@]}" "$@"
variant laplacian --node-relation none --node-encodings laplacian:8 --edge-type none "${budget[@]}" "$@"
variant spatial --node-encodings none --edge-type none "${budget[@]}" "$@"
variant centrality --edge-type none "${budget[@]}" "$@"
variant via-node --edge-type node "${budget[@]}" "$@"
variant via-aggregation --edge-type aggregation "${budget[@]}" "$@"
variant via-bias "${budget[@]}" "$@"
