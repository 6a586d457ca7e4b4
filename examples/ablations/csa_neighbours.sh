#!/usr/bin/env bash
# CSA, attention to neighbours only: Menegaux et al. 2023, section 4.1 announces it, no table
# prints it. Test MAE on ZINC.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/cgt_zinc_rings

variant neighbours --neighbours-only "$@"
variant all "$@"
