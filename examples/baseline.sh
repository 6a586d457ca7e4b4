# Sourced by the baselines on ZINC, PATTERN and CLUSTER. The papers quote their rows from
# Dwivedi et al. 2020 (arXiv:2003.00982) and, for PNA and MPNN, Corso et al. 2020
# (arXiv:2004.05718), and state no settings. Those here are of the released code
# (benchmarking-gnns, configs/*.json and main_*.py; lukecavabarrett/pna,
# realworld_benchmark/README.md):
#
#   Adam 1e-3, halved when the validation loss has not fallen for `patience` epochs,
#   until 1e-5; at most 1000 epochs; raw targets; the last epoch gives the number.
#
#                             batch  patience  decay (L2)
#   ZINC                        128        10           0
#     PNA, MPNN                 128        20        3e-6
#   PATTERN, CLUSTER            128         5           0
#     GCN, GraphSAGE             64         5           0
#     GatedGCN                   32         5           0
#     all of 100k weights       128         5           0
#     PNA, MPNN, GINE           128         5           0    our choice
#
# Differences: no limit of 12 hours (PNA and MPNN: 48); on PATTERN and CLUSTER loss and accuracy
# are those of the whole split, where the released code takes means over batches.

GRAPHS=10000 WATCH=loss TEST_CHECKPOINT=last
optimizer=("${adam[@]}" --weight-decay 0) batch=128
if [[ $DATASET == zinc ]]; then
    METRIC=mae patience=10 task=(--criterion l1_loss --target-scale none)
    if [[ $ARCH == pna || $ARCH == mpnn ]]; then
        patience=20
        optimizer=(--optimizer adam_l2 "${adam[@]:2}" --weight-decay 3e-6)
    fi
else
    METRIC=weighted_accuracy patience=5 task=(--criterion weighted_cross_entropy)
    TASK=node_prediction
    case $RECIPE in
        gcn | graphsage) batch=64 ;;
        gatedgcn) batch=32 ;;
    esac
fi
paper_budget 1000 "$batch"

recipe "${task[@]}" "${optimizer[@]}" $(plateau 1e-3 "$patience" 1e-5) "$@"
