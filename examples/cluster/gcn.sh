#!/usr/bin/env bash
# CLUSTER, GCN: Park et al. 2022, Table 6, weighted accuracy 68.498 +- 0.976 %.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=gcn
source "$EXAMPLES/baseline.sh"
