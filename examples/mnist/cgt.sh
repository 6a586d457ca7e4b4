#!/usr/bin/env bash
# MNIST superpixels, CSA: a row of no table in the paper.
# Settings: the released mnist-CSA.yaml, in superpixels.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
source "$EXAMPLES/superpixels.sh"

DATASET=mnist GRAPHS=55000
cgt "$@"
