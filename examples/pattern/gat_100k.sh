#!/usr/bin/env bash
# PATTERN, GAT with 100k parameters: Park et al. 2022, Table 5, weighted accuracy 75.824 +- 1.823 %.
# Settings: the protocol of Dwivedi et al. 2020, from which the papers quote; 4 layers, and the
# width of its 100k model. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gat
set -- --encoder-layers 4 --encoder-embed-dim 152 "$@"
source "$EXAMPLES/baseline.sh"
