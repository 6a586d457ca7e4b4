# Sourced by the small models on molhiv, which no paper has trained there: one choice of ours
# for all of them, tuned for none.

GRAPHS=32901
METRIC=roc_auc
paper_budget 10 32

recipe --criterion binary_logloss --dropout 0.1 \
    "${adam[@]}" --clip-norm 5 --weight-decay 0.01 \
    $(linear_decay 5e-4 "$(scaled_epochs 1)" "$(updates)") "$@"
