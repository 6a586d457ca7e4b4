#!/usr/bin/env bash
# PATTERN, GCN with 100k parameters: Park et al. 2022, Table 5, weighted accuracy 63.880 +- 0.074 %.
# Settings: the released code of Dwivedi et al. 2020: 4 layers of width 146. All are in
# baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gcn
set -- --encoder-layers 4 --encoder-embed-dim 146 "$@"
source "$EXAMPLES/baseline.sh"
