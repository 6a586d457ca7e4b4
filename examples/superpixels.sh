# Sourced by the recipes of MNIST and CIFAR10, which set DATASET and GRAPHS: what their
# released settings share.

METRIC=accuracy

# grpe_tiny FLAGS...: mnist.sh, cifar.sh, and the defaults of their gpp.py, which passes no
# attention dropout on, so that the network's own 0.1 acts.
grpe_tiny() {
    ARCH=grpe_tiny
    paper_budget 300 64
    recipe --criterion multiclass_cross_entropy --max-hop 3 --dropout 0 \
        --attention-dropout 0.1 "${adam[@]}" --clip-norm 5 --weight-decay 0 \
        $(linear_decay 2e-4 "$(scaled_epochs 3)" "$(updates)") "$@"
}

# cgt FLAGS...: mnist-CSA.yaml and cifar10-CSA.yaml, with linear maps of the weights of edges.
# Differences: their nodes read 8 eigenvectors through a DeepSet, which this project does not
# have; here they read 16 return probabilities in 8 channels (our choice). Their head, which
# is GraphGym's, comes after the mean over the nodes and has hidden layers of the full width,
# two on MNIST and one on CIFAR10, each divided by its L2 norm; here it has two before the
# mean, of D / 2 and D / 4.
cgt() {
    ARCH=cgt_pattern
    paper_budget 100 16
    recipe --criterion multiclass_cross_entropy --encoder-layers 3 --encoder-embed-dim 52 \
        --encoder-ffn-embed-dim 104 --encoder-attention-heads 4 --attention-dropout 0.5 \
        --node-encoding-dim 8 --readout mean \
        "${adam[@]}" --clip-norm 1 --weight-decay 1e-5 \
        $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
}

# exphormer FLAGS...: configs/Exphormer at 1b43962. Its 8 eigenvectors enter GatedGCN
# (EquivStableLapPE), here the nodes; its rate changes per epoch, here per update.
exphormer() {
    ARCH="exphormer_$DATASET"
    paper_budget 150 16
    recipe --criterion multiclass_cross_entropy \
        "${adam[@]}" --clip-norm 1 --weight-decay 1e-5 \
        $(cosine 1e-3 "$(scaled_epochs 5)") "$@"
}
