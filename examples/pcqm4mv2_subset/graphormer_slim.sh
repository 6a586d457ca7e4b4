#!/usr/bin/env bash
# HOMO-LUMO gaps of 1,999 molecules of PCQM4Mv2, Graphormer-slim: no paper reports it.
# Settings: ours, see gap.sh. Hardware, time: see results.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

ARCH=graphormer_paper_slim
paper_budget 100 32 # ours
source "$EXAMPLES/gap.sh"
