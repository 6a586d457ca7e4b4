#!/usr/bin/env bash
# PATTERN, MPNN: no value in the four papers.
# Settings: the protocol of Dwivedi et al. 2020, from which the papers quote. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=mpnn
source "$EXAMPLES/baseline.sh"
