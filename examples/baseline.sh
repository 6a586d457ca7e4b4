# Sourced by the baselines on ZINC, PATTERN and CLUSTER: the protocol of Dwivedi et al. 2020
# (arXiv:2003.00982): rate 1e-3, halved on plateaus, until 1e-5.

GRAPHS=10000
paper_budget 1000 128
if [[ $DATASET == zinc ]]; then
    METRIC=mae criterion=l1_loss patience=10
else
    METRIC=weighted_accuracy criterion=weighted_cross_entropy patience=5
    DIRECTION=max TASK=node_prediction
fi

recipe --criterion "$criterion" \
    "${adam[@]}" --weight-decay 0 \
    $(plateau 1e-3 "$patience" 1e-5) "$@"
