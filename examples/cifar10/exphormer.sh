#!/usr/bin/env bash
# CIFAR10 superpixels, Exphormer: Shirzad et al. 2023 (arXiv:2303.06147), whose figure is not
# here.
# Settings: those of the released code, in superpixels.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
source "$EXAMPLES/superpixels.sh"

DATASET=cifar10 GRAPHS=45000
exphormer "$@"
