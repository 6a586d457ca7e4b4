#!/usr/bin/env bash
# PATTERN, GAT with 100k parameters: Park et al. 2022, Table 5, weighted accuracy 75.824 +- 1.823 %.
# Settings: the released code of Dwivedi et al. 2020: 4 layers of width 152 (8 heads of 19).
# All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gat
set -- --encoder-layers 4 --encoder-embed-dim 152 "$@"
source "$EXAMPLES/baseline.sh"
