#!/usr/bin/env bash
# ZINC, GraphSage: Ying et al. 2021, Table 4, test MAE 0.398 +- 0.002.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=graphsage
source "$EXAMPLES/baseline.sh"
