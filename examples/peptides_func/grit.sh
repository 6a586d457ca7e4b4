#!/usr/bin/env bash
# Peptides-func, GRIT: Ma et al. 2023 (arXiv:2305.17589), test AP 69.88 % (mean over ten
# classes).
# Settings: the released peptides-func-GRIT-RRWP.yaml; clipping at 1 is GraphGym's. Its rate
# changes per epoch, here per update. 433,930 weights.
# Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=peptides-func ARCH=grit_peptides_func GRAPHS=10873 METRIC=ap
paper_budget 200 16 # 680 updates an epoch

recipe --criterion binary_logloss \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 3e-4 "$(scaled_epochs 10)") "$@"
