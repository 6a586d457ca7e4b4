#!/usr/bin/env bash
# PCQM4Mv2, GIN: Park et al. 2022, Table 8, validation MAE 0.1195 eV.
# Settings: OGB's released scripts, to which Ying et al. 2021 refer (B.3.1). All are in
# ogb_baseline.sh. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=gin_pcqm4m GRAPHS=3378606
flags=()
source "$EXAMPLES/ogb_baseline.sh"
