#!/usr/bin/env bash
# PCQM4M, GCN-VN: Ying et al. 2021, Table 1, validation MAE 0.1485 eV.
# Settings: OGB's released scripts, to which Ying et al. 2021 refer (B.3.1). All are in
# ogb_baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4m ARCH=gcn_pcqm4m GRAPHS=3045360
flags=(--virtual-node)
source "$EXAMPLES/ogb_baseline.sh"
