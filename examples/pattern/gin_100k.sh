#!/usr/bin/env bash
# PATTERN, GIN with 100k parameters: Park et al. 2022, Table 5, weighted accuracy 85.590 +- 0.011 %.
# Settings: the released code of Dwivedi et al. 2020: 4 layers of width 110. All are in
# baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gin
set -- --encoder-layers 4 --encoder-embed-dim 110 --encoder-ffn-embed-dim 110 "$@"
source "$EXAMPLES/baseline.sh"
