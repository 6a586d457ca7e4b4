# Sourced by the PCQM4M and PCQM4Mv2 baselines: what OGB's own scripts for them set
# (examples/lsc/pcqm4m{,-v2}/main_gnn.py, gnn.py), to which Ying et al. 2021 refer (B.3.1,
# which states the same batch size, rate, decay of the rate and epochs): Adam 1e-3, times
# 0.25 every 30 epochs, no dropout, raw targets, predictions clamped in evaluation to 0..50
# eV (PCQM4M) or 0..20 eV (PCQM4Mv2); the best epoch of the validation split gives the
# number. (fairseq spells --lr-deacy-period.)

METRIC=mae TEST_SUBSET=valid clamp=50
[[ $DATASET == pcqm4m ]] || clamp=20
paper_budget 100 256

recipe --criterion l1_loss --target-scale none --clamp-max "$clamp" \
    "${flags[@]}" --dropout 0 \
    "${adam[@]}" --weight-decay 0 \
    --lr 1e-3 --lr-scheduler step --lr-deacy-period "$(scaled_epochs 30)" --lr-decay 0.25 \
    --warmup-updates 0 --max-epoch "$EPOCHS" "$@"
