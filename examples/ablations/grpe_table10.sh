#!/usr/bin/env bash
# GRPE, shared encodings: Park et al. 2022, Table 10, test MAE on ZINC.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/grpe_small

variant shared "$@"
variant independent --independent-encodings "$@"
