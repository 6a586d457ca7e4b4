#!/usr/bin/env bash
# CLUSTER, GIN: Park et al. 2022, Table 6, weighted accuracy 64.716 +- 1.553 %.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=gin
source "$EXAMPLES/baseline.sh"
