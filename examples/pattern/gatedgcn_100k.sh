#!/usr/bin/env bash
# PATTERN, GatedGCN with 100k parameters: Park et al. 2022, Table 5, weighted accuracy
# 84.480 +- 0.122 %.
# Settings: the released code of Dwivedi et al. 2020: 4 layers of width 70, without
# eigenvectors. All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gatedgcn
set -- --encoder-layers 4 --encoder-embed-dim 70 "$@"
source "$EXAMPLES/baseline.sh"
