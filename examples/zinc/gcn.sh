#!/usr/bin/env bash
# ZINC, GCN: Park et al. 2022, Table 2, test MAE 0.367 +- 0.011.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=gcn
source "$EXAMPLES/baseline.sh"
