#!/usr/bin/env bash
# CIFAR10 superpixels, CSA: a row of no table in the paper.
# Settings: the released cifar10-CSA.yaml, with linear maps of the weights of edges. Differences:
# its nodes read 8 eigenvectors through a DeepSet, which this project does not have; here they
# read 16 return probabilities in as many channels (our choice). Its head has hidden layers of
# the full width. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=cifar10 ARCH=cgt_pattern GRAPHS=45000 METRIC=accuracy DIRECTION=max
paper_budget 100 16

recipe --criterion multiclass_cross_entropy --encoder-layers 3 --encoder-embed-dim 52 \
    --encoder-ffn-embed-dim 104 --encoder-attention-heads 4 --attention-dropout 0.5 \
    --rwse-dim 8 --relative-dim 20 --readout mean \
    "${adam[@]}" --clip-norm 1 --weight-decay 1e-5 \
    $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
