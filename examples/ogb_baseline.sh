# Sourced by the PCQM4M baselines: what OGB's own scripts for them set. (fairseq spells --lr-deacy-period.)

METRIC=mae TEST_SUBSET=valid
paper_budget 100 256

recipe --criterion l1_loss "${flags[@]}" --dropout 0 \
    "${adam[@]}" --weight-decay 0 \
    --lr 1e-3 --lr-scheduler step --lr-deacy-period "$(scaled_epochs 30)" --lr-decay 0.25 \
    --warmup-updates 0 --max-epoch "$EPOCHS" "$@"
