#!/usr/bin/env bash
# CLUSTER, GAT: Park et al. 2022, Table 6, weighted accuracy 70.587 +- 0.447 %.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=gat
source "$EXAMPLES/baseline.sh"
