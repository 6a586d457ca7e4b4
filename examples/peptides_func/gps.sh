#!/usr/bin/env bash
# Peptides-func, GPS: Tönshoff et al. 2023, test AP 65.34 % (mean over ten classes).
# Settings: the released code (toenshoff/LRGB, configs/LRGB-tuned/peptides-func-GPS.yaml) and,
# for the norm of gradients, 1, GraphGym's default. Its eigenvectors pass a DeepSet, here
# a linear map; its rate changes per epoch, here per update. 478,634 weights.
# Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=peptides-func ARCH=gps_peptides GRAPHS=10873 METRIC=ap
paper_budget 250 200 # 55 updates an epoch

recipe --criterion binary_logloss --encoder-layers 6 --encoder-embed-dim 76 \
    --activation-fn gelu --head-style wide --dropout 0.1 --attention-dropout 0.5 \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
