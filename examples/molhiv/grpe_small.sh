#!/usr/bin/env bash
# molhiv, GRPE-Small, from scratch: no paper reports it.
# Settings: ours, see from_scratch.sh. Hardware, time: see results.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=grpe_small
source "$EXAMPLES/from_scratch.sh"
