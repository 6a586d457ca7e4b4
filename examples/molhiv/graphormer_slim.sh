#!/usr/bin/env bash
# molhiv, Graphormer-slim, from scratch: no paper reports it.
# Settings: ours, see from_scratch.sh. Hardware, time: see results.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=graphormer_paper_slim
source "$EXAMPLES/from_scratch.sh"
