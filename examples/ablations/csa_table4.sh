#!/usr/bin/env bash
# CSA, relative encoding and rings: Menegaux et al. 2023, Table 4, test MAE on ZINC; and no
# relative encoding, which the table leaves out. Of distances (SPDE) the paper says only
# SPDE-8 (section 3.5); all else is the recipe's. The column "released" is of
# zinc-CSA+SPDE(-Rings).yaml and zinc-CSA+noRPE(-Rings).yaml.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/cgt_zinc_rings

# paper, and below it released
steps=8 rings=categorical more=()
if [[ ${VARIANT:-} == released ]]; then
    steps=10 rings=additive more=(--own-edge-encoding --encoder-attention-heads 4)
fi
spde=("${more[@]}" --relative-encoding spde --relative-steps "$steps")
none=("${more[@]}" --relative-encoding none)

variant rwse --rings none "$@"
variant rwse-rings "$@"
variant spde "${spde[@]}" --rings none "$@"
variant spde-rings "${spde[@]}" --rings "$rings" "$@"
variant none "${none[@]}" --rings none "$@"
variant none-rings "${none[@]}" --rings "$rings" "$@"
