#!/usr/bin/env bash
# molhiv, Graphormer-slim, from scratch: no paper reports it.
# Settings: ours, see from_scratch.sh.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=graphormer_slim
source "$EXAMPLES/from_scratch.sh"
