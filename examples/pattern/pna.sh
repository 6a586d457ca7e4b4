#!/usr/bin/env bash
# PATTERN, PNA with 100k parameters: Park et al. 2022, Table 5, weighted accuracy
# 86.567 +- 0.075 %; there is no larger one in the table.
# Settings: the protocol of Dwivedi et al. 2020, from which the papers quote; 4 layers.
# Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=pna
set -- --encoder-layers 4 "$@"
source "$EXAMPLES/baseline.sh"
