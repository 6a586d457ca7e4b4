#!/usr/bin/env bash
# PATTERN, PNA: Park et al. 2022, Table 5, weighted accuracy 86.567 +- 0.075 %,
# with 100k parameters.
# Settings: the protocol of Dwivedi et al. 2020, from which the papers quote. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=pna
source "$EXAMPLES/baseline.sh"
