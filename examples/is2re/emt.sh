#!/usr/bin/env bash
# IS2RE on surfaces that EMT has relaxed (make_dataset.py), Graphormer-3D: no paper reports it.
# Settings: the released oc20.sh, but for a smaller network, rate and length, which are ours.
# Hardware, time: see results.tsv. DATA is the folder of the LMDB files, which is made of
# SYSTEMS training systems if it is missing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

ARCH=graphormer3d_small GRAPHS="${SYSTEMS:-10000}" METRIC=mae TASK=is2re
TEST_SUBSET=val_id WATCH=loss
paper_budget 10 16 # ours
DATASET="${DATA:-$ROOT/runs/is2re/data}"
[[ -z ${SMOKE:-} ]] || DATASET="$SMOKE_DIR/is2re" GRAPHS=10
[[ -d $DATASET ]] ||
    "$PYTHON" "$EXAMPLES/is2re/make_dataset.py" "$DATASET" --systems "$GRAPHS"

recipe --valid-subset valid,val_ood_ads,val_ood_cat,val_ood_both \
    --criterion mae_deltapos --encoder-layers 3 --blocks 2 --encoder-embed-dim 96 \
    --encoder-ffn-embed-dim 96 --encoder-attention-heads 8 --gaussian-kernels 64 \
    --dropout 0 --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-6 \
    --clip-norm 5 --weight-decay 1e-3 --max-update "$(updates)" \
    $(linear_decay 5e-4 "$(share 0.05)" "$(updates)") "$@"
