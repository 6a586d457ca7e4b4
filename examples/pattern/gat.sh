#!/usr/bin/env bash
# PATTERN, GAT: Park et al. 2022, Table 5, weighted accuracy 78.271 +- 0.186 %.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gat
source "$EXAMPLES/baseline.sh"
