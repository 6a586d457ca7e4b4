#!/usr/bin/env bash
# GT: Dwivedi & Bresson 2021, Table 3: Weisfeiler-Lehman roles; its other rows are in Table 1.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

for RECIPE in zinc/gt_zinc pattern/gt_sbm cluster/gt_sbm; do
    [[ $RECIPE == zinc/* ]] && rows=37 || rows=100
    variant bn-wl-sparse --norm batch --node-encodings "degrees:$rows:0" "$@"
done
