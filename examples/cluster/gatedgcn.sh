#!/usr/bin/env bash
# CLUSTER, GatedGCN: Park et al. 2022, Table 6, weighted accuracy 76.082 +- 0.196 %.
# Settings: the released code of Dwivedi et al. 2020: GatedGCN-PE with 20 Laplacian
# eigenvectors. All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cluster ARCH=gatedgcn
set -- --node-encodings laplacian:20 "$@"
source "$EXAMPLES/baseline.sh"
