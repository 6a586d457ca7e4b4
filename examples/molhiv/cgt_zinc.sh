#!/usr/bin/env bash
# molhiv, CSA, the model for ZINC, from scratch: no paper reports it.
# Settings: ours, see from_scratch.sh. Hardware, time: see results.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=cgt_zinc
source "$EXAMPLES/from_scratch.sh"
