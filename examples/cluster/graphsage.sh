#!/usr/bin/env bash
# CLUSTER, GraphSage: no value in the four papers.
# Settings: the released code of Dwivedi et al. 2020. All are in baseline.sh. Hardware, time:
# not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=graphsage
source "$EXAMPLES/baseline.sh"
