#!/usr/bin/env bash
# GRPE, largest distance L: Park et al. 2022, Figure 5, from scratch; the curve is of an AUC,
# so this is molhiv. The figure prints no values.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=molhiv/grpe_standard
export PRETRAINED=none

for hops in 1 2 3 4 5 6; do
    variant "L$hops" --max-hop $hops "$@"
done
