#!/usr/bin/env bash
# PCQM4M, GT: Ying et al. 2021, Table 1, validation MAE 0.1400 eV.
# Settings: see gt_pcqm4m.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4m ARCH=gt_zinc GRAPHS=3045360
source "$EXAMPLES/gt_pcqm4m.sh"
