#!/usr/bin/env bash
# PATTERN, GRPE-Small: Park et al. 2022, Table 5, weighted accuracy 87.020 +- 0.042 % (5 runs).
# Settings: ours but for rates, decay and L, see grpe_sbm.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=grpe_small batch=32
source "$EXAMPLES/grpe_sbm.sh"
