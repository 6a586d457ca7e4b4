#!/usr/bin/env bash
# GT: Dwivedi & Bresson 2021, Table 1: LayerNorm or BatchNorm, Laplacian encoding or none,
# sparse or full graph, on ZINC, PATTERN and CLUSTER.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

for RECIPE in zinc/gt_zinc pattern/gt_sbm cluster/gt_sbm; do
    for norm in ln bn; do
        [[ $norm == ln ]] && flags=(--norm layer) || flags=(--norm batch)
        for encoding in none laplacian; do
            encoded=("${flags[@]}")
            [[ $encoding == laplacian ]] || encoded+=(--node-encodings none)
            variant "$norm-$encoding-sparse" "${encoded[@]}" "$@"
            # The released code has batches of 10 full graphs but on ZINC; the paper states
            # none.
            if [[ $RECIPE == zinc/* ]]; then
                variant "$norm-$encoding-full" "${encoded[@]}" --full-graph "$@"
            else
                BATCH_SIZE="${BATCH_SIZE:-10}" \
                    variant "$norm-$encoding-full" "${encoded[@]}" --full-graph "$@"
            fi
        done
    done
done
