#!/usr/bin/env bash
# CLUSTER, GRPE-Small: Park et al. 2022, Table 6, weighted accuracy 81.586 +- 0.190 % (5 runs).
# Settings: ours but for rates, decay and L, see grpe_sbm.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=grpe_small batch=16
source "$EXAMPLES/grpe_sbm.sh"
