#!/usr/bin/env bash
# MNIST superpixels, GRPE-Tiny: a row of no table in the paper.
# Settings: the released mnist.sh and the defaults of its gpp.py, which passes no attention
# dropout on, so that the network's own 0.1 acts. Edges are their weights in tenths, rounded
# down, as in its data. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=mnist-tenths ARCH=grpe_tiny GRAPHS=55000 METRIC=accuracy DIRECTION=max
paper_budget 300 64

recipe --criterion multiclass_cross_entropy --max-hop 3 --dropout 0 --attention-dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0 \
    $(linear_decay 2e-4 "$(scaled_epochs 3)" "$(updates)") "$@"
