#!/usr/bin/env bash
# CLUSTER, GINE: no value in the four papers.
# Settings: our choice, those of GIN. All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=gine
source "$EXAMPLES/baseline.sh"
