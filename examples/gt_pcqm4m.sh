# Sourced by GT on PCQM4M and PCQM4Mv2.
#
# Rate 1e-4 and 4 eigenvectors are those of Ying et al. 2021 (appendix B.3.1), the rest is as
# for ZINC, with raw targets and the last epoch. They leave out the 0.08 % of molecules that
# are too small for 4 eigenvectors, which are kept here.

METRIC=mae TEST_SUBSET=valid
TEST_CHECKPOINT=last # as in the released code for ZINC
paper_budget 1000 128

recipe --criterion l1_loss --target-scale none \
    --norm batch --node-encodings laplacian:4 \
    "${adam[@]}" --weight-decay 0 \
    $(plateau 1e-4 15 1e-6) "$@"
