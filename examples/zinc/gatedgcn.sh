#!/usr/bin/env bash
# ZINC, GatedGCN: Park et al. 2022, Table 2, test MAE 0.214 +- 0.006.
# Settings: the released code of Dwivedi et al. 2020: GatedGCN-PE with 8 Laplacian
# eigenvectors. All are in baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=zinc ARCH=gatedgcn
set -- --node-encodings laplacian:8 "$@"
source "$EXAMPLES/baseline.sh"
