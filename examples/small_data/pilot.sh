#!/usr/bin/env bash
# pilot.sh FOLDER DATA: two small starts for the trial `targets`, one that has learned
# descriptors and one that has learned the bits of a fingerprint as well.
#
# Every third molecule of MUV without those of the six sets, and less than a third of the
# updates of the start in the package: enough to compare the two (our choice). The same line
# goes on where it was stopped. UPDATES shortens it, for a test.

set -euo pipefail
folder="$1/pilot" data="$2" updates="${UPDATES:-4000}"
root="$(cd "$(dirname "$0")/../.." && pwd)"
mkdir -p "$folder"

if [[ ! -e $folder/molecules.csv.gz ]]; then # written last
    gzip -dc "$data/muv.csv.gz" | awk 'NR % 3 == 1' > "$folder/muv.csv"
    python "$root/examples/pretraining/prepare.py" "$folder" "$folder/muv.csv" \
        --fingerprint-bits 256 \
        --leave-out "$data"/{esol,freesolv,lipophilicity,bbbp}.csv "$data"/tox{21,cast}.csv.gz
fi
bits="$(< "$folder/targets.txt")"
descriptors="$(tr , '\n' <<< "$bits" | grep -v '^morgan_' | paste -sd ,)"
for targets in descriptors bits; do
    [[ ! -e $folder/$targets.pt ]] || continue
    fairseq-train --user-dir "$root/graphormer_plugin" --task graph_prediction \
        --dataset-name "$folder/molecules.csv.gz" --target-scale none --skip-invalid \
        --target-columns "${!targets}" --arch grpe_small --dropout 0 --attention-dropout 0 \
        --criterion mse_loss --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 5 \
        --lr 2e-3 --lr-scheduler polynomial_decay --warmup-updates $((updates / 25)) \
        --total-num-update "$updates" --end-learning-rate 1e-6 --max-update "$updates" \
        --batch-size 64 --num-workers 0 --cpu --seed 1 --no-epoch-checkpoints \
        --save-dir "$folder/$targets"
    graphormer-convert --slim "$folder/$targets/checkpoint_last.pt" "$folder/$targets.pt"
done
