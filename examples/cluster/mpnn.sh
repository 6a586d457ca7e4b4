#!/usr/bin/env bash
# CLUSTER, MPNN: no value in the four papers.
# Settings: our choice, those of GIN; no released code trains this model here. All are in
# baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=mpnn
source "$EXAMPLES/baseline.sh"
