# Sourced by GRPE on PATTERN and CLUSTER, which set `batch`.
#
# Rates, decay and L are the paper's, which states no others; nothing is released for these
# benchmarks. The rest is our choice: batch size and epochs of Menegaux et al. 2023 (Table
# 6), a tenth of the updates as warm-up, and dropout, weight decay, noise and no clipping as
# in the released zinc.py.

GRAPHS=10000 METRIC=weighted_accuracy
TASK=node_prediction
paper_budget 100 "$batch"

recipe --criterion weighted_cross_entropy --max-hop 5 \
    --dropout 0.1 --attention-dropout 0.1 --perturb-noise 0.2 \
    "${adam[@]}" --clip-norm 0 --weight-decay 1e-3 \
    $(linear_decay 2e-4 $(($(updates) / 10)) "$(updates)") "$@"
