#!/usr/bin/env bash
# PCQM4Mv2, GRIT: Ma et al. 2023 (arXiv:2305.17589).
# Settings: the released pcqm4mv2-GRIT-RRWP.yaml; clipping at 1 and raw targets are GraphGym's.
# Its code refuses the name of its walks, which are taken as meant; its rate changes per epoch,
# here per update. Hardware, time: not stated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

DATASET=pcqm4mv2 ARCH=grit_pcqm4mv2 GRAPHS=3378606 METRIC=mae TEST_SUBSET=valid
paper_budget 150 256 # 13198 updates each

recipe --criterion l1_loss --target-scale none \
    "${adam[@]}" --clip-norm 1 --weight-decay 0 \
    $(linear_decay 2e-4 "$(scaled_epochs 10)" "$(updates)") "$@"
