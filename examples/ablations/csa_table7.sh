#!/usr/bin/env bash
# CSA, heads: Menegaux et al. 2023, Table 7, test MAE on ZINC and validation MAE on a tenth of
# PCQM4Mv2; as many heads as channels is the same with and without colour. The paper seems to
# have the names of the table's two columns the wrong way round, see README.md.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

# of_heads BEST CHANNELS FLAGS...: the rows of a column; SMOKE has 16 channels.
of_heads() {
    local best="$1" channels="$2" all="$2" heads=--encoder-attention-heads
    shift 2
    [[ -z ${SMOKE:-} ]] || all=16
    variant mono-1 --attention mono $heads 1 "$@"
    variant chromatic-1 $heads 1 "$@"
    variant "mono-$best" --attention mono $heads "$best" "$@"
    variant "chromatic-$best" $heads "$best" "$@"
    variant "mono-$channels" --attention mono $heads "$all" "$@"
}

RECIPE=zinc/cgt_zinc_rings
of_heads 8 64 "$@"
RECIPE=pcqm4mv2/cgt_small_subset
of_heads 16 256 "$@"
