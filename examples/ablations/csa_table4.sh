#!/usr/bin/env bash
# CSA, relative encoding and rings: Menegaux et al. 2023, Table 4, test MAE on ZINC; and no
# relative encoding, which the table leaves out. SPDE-8, the only one that the paper names.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/cgt_zinc_rings

variant rwse --rings none "$@"
variant rwse-rings "$@"
variant spde --relative-encoding spde --relative-steps 8 --rings none "$@"
variant spde-rings --relative-encoding spde --relative-steps 8 "$@"
variant none --relative-encoding none --rings none "$@"
variant none-rings --relative-encoding none "$@"
