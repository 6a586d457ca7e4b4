#!/usr/bin/env bash
# CLUSTER, GRPE-Tiny: no value in Park et al. 2022.
# Settings: ours but for rates, decay and L, see grpe_sbm.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=grpe_tiny batch=16
source "$EXAMPLES/grpe_sbm.sh"
