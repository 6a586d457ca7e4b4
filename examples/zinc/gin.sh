#!/usr/bin/env bash
# ZINC, GIN: Park et al. 2022, Table 2, test MAE 0.526 +- 0.051.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=gin
source "$EXAMPLES/baseline.sh"
