#!/usr/bin/env bash
# molhiv, GRPE-Small from the start that comes with the package: no paper reports it. That
# start has seen molecules of the training and validation splits, without labels.
# Settings: ours, see from_scratch.sh. Hardware, time: see results.tsv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=ogbg-molhiv ARCH=grpe_small
start=(--pretrained-model-name grpe_small_descriptors)
[[ -z ${SMOKE:-} ]] || start=() # its weights are of another size
source "$EXAMPLES/from_scratch.sh" "${start[@]}" "$@"
