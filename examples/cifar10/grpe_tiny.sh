#!/usr/bin/env bash
# CIFAR10 superpixels, GRPE-Tiny: a row of no table in the paper.
# Settings: the released cifar.sh, in superpixels.sh. Edges are their weights in tenths, rounded
# down, as in its data. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
source "$EXAMPLES/superpixels.sh"

DATASET=cifar10-tenths GRAPHS=45000
grpe_tiny "$@"
