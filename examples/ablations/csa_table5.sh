#!/usr/bin/env bash
# CSA, colour and edge values: Menegaux et al. 2023, Table 5, test MAE on ZINC and validation
# MAE on a tenth of PCQM4Mv2.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

for RECIPE in zinc/cgt_zinc_rings pcqm4mv2/cgt_small_subset; do
    variant mono-plain --attention mono --no-edge-values "$@"
    variant chromatic-plain --no-edge-values "$@"
    variant mono-value --attention mono "$@"
    variant chromatic-value "$@"
done
