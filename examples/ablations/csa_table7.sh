#!/usr/bin/env bash
# CSA, heads: Menegaux et al. 2023, Table 7, test MAE on ZINC; as many heads as channels
# is the same with and without colour. The paper seems to have the names of the table's two
# columns the wrong way round, see README.md.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/cgt_zinc_rings
heads=--encoder-attention-heads
# SMOKE has 16 channels, and no preset's heads.
channels=64
[[ -z ${SMOKE:-} ]] || channels=16

variant mono-1 --attention mono $heads 1 "$@"
variant chromatic-1 $heads 1 "$@"
variant mono-8 --attention mono $heads 8 "$@"
variant chromatic-8 $heads 8 "$@"
variant mono-64 --attention mono $heads $channels "$@"
