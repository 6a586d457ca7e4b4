#!/usr/bin/env bash
# ZINC, MPNN: Park et al. 2022, Table 2, test MAE 0.145 +- 0.007.
# Settings: the released code of Corso et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=mpnn
source "$EXAMPLES/baseline.sh"
