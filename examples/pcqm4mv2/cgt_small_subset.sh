#!/usr/bin/env bash
# A tenth of PCQM4Mv2, CSA-small: the second data set of the ablations of Menegaux et al. 2023,
# csa_table5.sh and csa_table7.sh, which see for what they report.
# Settings: Table 6, AdamW, with 5 layers as in cgt_small.sh. Gradients are clipped at 1 as in
# GraphGPS, on which its code is built. In the paper: one V100, time not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2-subset ARCH=cgt_small GRAPHS=337860 METRIC=mae TEST_SUBSET=valid
paper_budget 300 256 # 1320 updates an epoch

recipe --criterion l1_loss \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 5e-4 "$(scaled_epochs 10)") "$@"
