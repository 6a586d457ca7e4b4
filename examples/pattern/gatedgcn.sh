#!/usr/bin/env bash
# PATTERN, GatedGCN: Park et al. 2022, Table 5, weighted accuracy 86.508 +- 0.085 %.
# Settings: the released code of Dwivedi et al. 2020: GatedGCN-PE with 2 Laplacian
# eigenvectors. All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pattern ARCH=gatedgcn
set -- --node-encodings laplacian:2 "$@"
source "$EXAMPLES/baseline.sh"
