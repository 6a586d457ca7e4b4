#!/usr/bin/env bash
# ZINC, GINE: no value in the four papers.
# Settings: our choice, those of GIN. All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=gine
source "$EXAMPLES/baseline.sh"
