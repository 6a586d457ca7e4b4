#!/usr/bin/env bash
# HOMO-LUMO gaps of 30,937 molecules of QM9, GRPE-Small: no paper reports it.
# Settings: ours, see gap.sh. Hardware, time: see results.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

ARCH=grpe_small
paper_budget 20 32 # ours
source "$EXAMPLES/gap.sh"
