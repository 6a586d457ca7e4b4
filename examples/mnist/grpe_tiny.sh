#!/usr/bin/env bash
# MNIST superpixels, GRPE-Tiny: a row of no table in the paper.
# Settings: the released mnist.sh, in superpixels.sh. Edges are their weights in tenths, rounded
# down, as in its data. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
source "$EXAMPLES/superpixels.sh"

DATASET=mnist-tenths GRAPHS=55000
grpe_tiny "$@"
