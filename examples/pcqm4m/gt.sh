#!/usr/bin/env bash
# PCQM4M, GT: Ying et al. 2021, Table 1, validation MAE 0.1400 eV (one run).
# Settings: rate 1e-4 and 4 eigenvectors (appendix B.3.1 there), else those for ZINC, with
# raw targets and the last epoch. It leaves out the 0.08 % of molecules that are too small
# for 4, which are kept here. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4m ARCH=gt_zinc GRAPHS=3045360 METRIC=mae TEST_SUBSET=valid
TEST_CHECKPOINT=last # as in the released code for ZINC
paper_budget 1000 128

recipe --criterion l1_loss --target-scale none \
    --norm batch --pos-enc laplacian --lap-pe-dim 4 \
    "${adam[@]}" --weight-decay 0 \
    $(plateau 1e-4 15 1e-6) "$@"
