#!/usr/bin/env bash
# CIFAR10 superpixels, CSA: a row of no table in the paper.
# Settings: the released cifar10-CSA.yaml, in superpixels.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
source "$EXAMPLES/superpixels.sh"

DATASET=cifar10 GRAPHS=45000
cgt "$@"
