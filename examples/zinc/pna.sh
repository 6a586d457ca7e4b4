#!/usr/bin/env bash
# ZINC, PNA: Park et al. 2022, Table 2, test MAE 0.142 +- 0.010.
# Settings: the released code of Corso et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=pna
source "$EXAMPLES/baseline.sh"
