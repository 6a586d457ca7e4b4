# Sourced by every recipe: trains, tests the best checkpoint, and writes one line to the
# table of results.
#
# A recipe sets what its paper fixes
#     DATASET, ARCH    names for --dataset-name and --arch
#     GRAPHS           training graphs, for the arithmetic of the schedule
#     METRIC           of the table
#     TASK             where it is not graph_prediction
#     TEST_SUBSET      where it is not test
#     TEST_CHECKPOINT  last where the source reports its last epoch, not the best one
#     WATCH=loss       what the best epoch and the plateaus of the rate go by, if not METRIC
#     HALF             --amp or --fp16, for GPUs, where the source trains in half precision;
#                      without it, float32
# calls `paper_budget`, and then `recipe FLAGS... "$@"`. Whoever runs it may set
#     SEED=1           of the weights, dropout and the order of graphs
#     EPOCHS           training length; the schedule is scaled to it
#     BATCH_SIZE       graphs per update over all devices, instead of the paper's
#     SOURCE           --dataset-source; generated:N:SEED counts as N training graphs
#     DATA_ROOT        downloads and prepared data; default as for fairseq-train
#     PRETRAINED       checkpoint to start from, where the recipe fine-tunes; none: do not,
#                      as VARIANT=scratch
#     SAVE_DIR         checkpoints and log; default runs/<benchmark>/<recipe>/seed<SEED>.
#                      A run that was interrupted goes on from there; one that is complete
#                      is not trained again, and one with other settings is refused
#     RESULTS          table of results; default examples/results.tsv
#     VARIANT          name of the run's folder and row, where FLAGS differ from the recipe's;
#                      released: where the paper and its released code contradict each
#                      other, the settings of the code
#     DEVICES          devices that train together; default the visible GPUs, or as many of
#                      them as share BATCH_SIZE evenly, or 1
#     DEVICE_BATCH     graphs that a device takes at once; default BATCH_SIZE / DEVICES
#     WORKERS=2        data workers per process
#     SMOKE=1          two updates of a tiny model on a few molecules, to see it all work
# Under torchrun --no-python or srun every process runs the recipe; the first one tests.

EXAMPLES="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
ROOT="$(dirname "$EXAMPLES")"
BENCHMARK="$(basename "$(cd "$(dirname "$0")" && pwd)")"
RECIPE="$(basename "$0" .sh)"

# What a recipe may set; variables of these names in the environment are something else.
TASK=graph_prediction TEST_SUBSET=test TEST_CHECKPOINT=best WATCH= HALF= pretrained=()
SEED="${SEED:-1}"
export SMOKE_DIR="${SMOKE_DIR:-$ROOT/runs/smoke}"
VARIANT="${VARIANT:-}" differs=
WORKERS="${WORKERS:-2}"
PYTHON="${PYTHON:-$(command -v python || command -v python3 || true)}"
export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"

fail() {
    echo "error: $BENCHMARK/$RECIPE: $*" >&2
    exit 2
}

# count NAME...: these settings are whole numbers above 0.
count() {
    local setting
    for setting; do
        [[ ${!setting} =~ ^[1-9][0-9]*$ ]] ||
            fail "$setting=${!setting} is not a whole number above 0"
    done
}

# either NAME PAPER RELEASED: sets NAME where the two contradict each other. The variants
# of an ablation end in -released.
either() {
    differs=1
    [[ $VARIANT == released || $VARIANT == *-released ]] && set -- "$1" "$3"
    printf -v "$1" %s "$2"
}

# paper_budget EPOCHS BATCH_SIZE: of the paper; the variables may say otherwise.
paper_budget() {
    PAPER_EPOCHS="$1" PAPER_BATCH="$2"
    EPOCHS="${EPOCHS:-$1}" BATCH_SIZE="${BATCH_SIZE:-$2}"
    count EPOCHS BATCH_SIZE
    if [[ ${SOURCE:-} == generated:* ]]; then
        [[ $SOURCE =~ ^generated:([1-9][0-9]*)(:[0-9]+)?$ ]] ||
            fail "SOURCE=$SOURCE is not generated:N or generated:N:SEED"
        GRAPHS="${BASH_REMATCH[1]}"
    fi
}

# updates [EPOCHS]: updates in that number of epochs, with each epoch's last batch.
updates() {
    echo $(((GRAPHS + BATCH_SIZE - 1) / BATCH_SIZE * ${1:-EPOCHS}))
}

# scaled UPDATES: a number of updates of the paper, for EPOCHS and BATCH_SIZE instead.
scaled() {
    local n=$(($1 * EPOCHS * PAPER_BATCH / PAPER_EPOCHS / BATCH_SIZE))
    echo $((n > 0 ? n : 1))
}

# scaled_epochs N: the updates of N epochs of the paper, for EPOCHS instead of its own.
scaled_epochs() {
    local n=$(($(updates "$1") * EPOCHS / PAPER_EPOCHS))
    echo $((n > 0 ? n : 1))
}

# share FRACTION: that of all updates, rounded down.
share() {
    awk "BEGIN { print int($(updates) * $1 + 1e-9) }"
}

# What the papers share: AdamW and three schedules.
adam=(--optimizer adamw --adam-betas "(0.9, 0.999)" --adam-eps 1e-8)

# linear_decay RATE WARMUP TOTAL: up to RATE in WARMUP updates, down to 1e-9 until TOTAL.
linear_decay() {
    echo "--lr $1 --lr-scheduler polynomial_decay --end-learning-rate 1e-9" \
        "--warmup-updates $2 --total-num-update $3 --max-epoch $EPOCHS"
}

# cosine RATE WARMUP: up to RATE in WARMUP updates, then half a cosine to the end.
cosine() {
    local period=$(($(updates) - $2))
    echo "--lr $1 --lr-scheduler cosine --warmup-updates $2" \
        "--lr-period-updates $((period > 0 ? period : 1)) --max-epoch $EPOCHS"
}

# plateau RATE PATIENCE STOP: RATE is halved after PATIENCE epochs without a better one; the
# training ends at rate STOP. Fewer EPOCHS than the paper's have a shorter PATIENCE.
plateau() {
    echo "--lr $1 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --warmup-updates 0" \
        "--lr-patience $(($2 * EPOCHS / PAPER_EPOCHS)) --stop-min-lr $3 --max-epoch $EPOCHS"
}

# pretrained_by BENCHMARK/RECIPE: sets `pretrained`, the flags to start from the checkpoint
# of that recipe, or from PRETRAINED; none of them with PRETRAINED=none.
pretrained_by() {
    if [[ ${PRETRAINED:-} == none ]]; then
        VARIANT="${VARIANT:-scratch}"
        return
    fi
    local run="$ROOT/runs/$1/seed1"
    if [[ -n ${SMOKE:-} ]]; then
        run="$SMOKE_DIR/$1/seed1"
        [[ -f $run/checkpoint_best.pt ]] ||
            env -u SAVE_DIR -u EPOCHS -u BATCH_SIZE -u VARIANT -u SEED bash "$EXAMPLES/$1.sh"
    fi
    PRETRAINED="${PRETRAINED:-$run/checkpoint_best.pt}"
    [[ -f $PRETRAINED ]] || fail "no checkpoint $PRETRAINED to start from; run" \
        "examples/$1.sh first, or set PRETRAINED"
    pretrained=(--finetune-from-model "$PRETRAINED")
}

# Sets `devices`, an array of the flags that say what to train on.
choose_devices() {
    local gpus=0
    if [[ -z ${SMOKE:-} ]] && command -v nvidia-smi rocm-smi > /dev/null; then
        gpus="$("$PYTHON" -c 'import torch; print(torch.cuda.device_count())')"
    fi
    # torchrun says how many processes there are, Slurm too: fairseq wants to be told, and
    # believes torchrun, which Slurm may have started once per machine.
    local processes="${WORLD_SIZE:-}" tasks="${SLURM_STEP_NUM_TASKS:-1}"
    if [[ -z $processes ]] && ((tasks > 1)); then
        processes="$tasks"
        # With a task per machine fairseq starts a process on each of its GPUs.
        ((tasks != ${SLURM_STEP_NUM_NODES:-0} || gpus < 2)) || processes=$((tasks * gpus))
    fi
    [[ -z ${DEVICE_BATCH:-} ]] || count DEVICE_BATCH
    if [[ -z ${DEVICES:-} ]]; then
        DEVICES="${processes:-$((gpus > 1 ? gpus : 1))}"
        while [[ -z $processes ]] &&
            ((DEVICES > 1 && BATCH_SIZE % (DEVICES * ${DEVICE_BATCH:-1}))); do
            DEVICES=$((DEVICES - 1))
        done
        [[ -n $processes ]] || ((DEVICES >= gpus)) ||
            echo "$BENCHMARK/$RECIPE: $DEVICES of $gpus GPUs share $BATCH_SIZE graphs evenly"
    fi
    count DEVICES
    DEVICE_BATCH="${DEVICE_BATCH:-$((BATCH_SIZE / DEVICES))}"
    local at_once=$((DEVICES * DEVICE_BATCH))
    ((at_once > 0 && BATCH_SIZE % at_once == 0)) || fail "batch size $BATCH_SIZE" \
        "is not a multiple of DEVICES ($DEVICES) x DEVICE_BATCH ($DEVICE_BATCH); use fewer" \
        "devices, or set BATCH_SIZE"
    ((DEVICES == ${processes:-DEVICES})) || fail "DEVICES=$DEVICES, but torchrun or Slurm" \
        "started $processes processes"
    [[ -n $processes ]] || ((DEVICES <= (gpus > 1 ? gpus : 1))) || fail "DEVICES=$DEVICES," \
        "but $gpus GPUs are visible; torchrun and Slurm start processes elsewhere"
    devices=(--batch-size "$DEVICE_BATCH" --update-freq $((BATCH_SIZE / at_once)))
    # fairseq would make 24 of 26.
    devices+=(--required-batch-size-multiple 1 --distributed-world-size "$DEVICES")
    if ((gpus == 0)); then
        devices+=(--cpu)
    elif [[ -z ${SMOKE:-} ]]; then
        devices+=($HALF)
    fi
}

# Later flags win in fairseq, so these come after the recipe's own.
smoke_flags() {
    smoke=(--max-update 2 --batch-size 8 --update-freq 1 --num-workers 0 --cpu)
    smoke+=(--prepare-workers 1 --encoder-layers 2)
    # fairseq refuses a flag that the architecture lacks, and a shell cannot ask it.
    case $ARCH in
        gat | tokengt*) smoke+=(--encoder-embed-dim 16 --encoder-attention-heads 2) ;;
        gcn* | gatedgcn | graphsage | pna* | mpnn) smoke+=(--encoder-embed-dim 20) ;;
        *) smoke+=(--encoder-embed-dim 16 --encoder-ffn-embed-dim 16) ;;
    esac
    [[ $TASK != node_prediction ]] || smoke+=(--dataset-source generated:20)
    [[ $ARCH != @(cgt_*|gps_*|gcn_peptides|exphormer_peptides_func) ]] ||
        smoke+=(--node-encoding-dim 4)
    [[ " $* " != *" --relative-dim "* ]] || smoke+=(--relative-dim 4)
}

recipe() {
    local smoke=() devices=()
    command -v fairseq-train > /dev/null ||
        fail "fairseq-train is not in PATH; after make setup: source .venv/bin/activate"
    [[ $SEED =~ ^[0-9]{1,9}$ ]] || fail "SEED=$SEED is not a whole number below a billion"
    [[ $WORKERS =~ ^[0-9]+$ ]] || fail "WORKERS=$WORKERS is not a whole number"
    [[ $VARIANT != released || -n $differs ]] || echo "$BENCHMARK/$RECIPE: no setting of the" \
        "paper contradicts the released code; VARIANT=released has the same settings"
    choose_devices
    if [[ -n ${SMOKE:-} ]]; then
        DATA_ROOT="$SMOKE_DIR/data"
        SAVE_DIR="${SAVE_DIR:-$SMOKE_DIR/$BENCHMARK/$RECIPE${VARIANT:+-$VARIANT}/seed$SEED}"
        RESULTS="${RESULTS:-$SMOKE_DIR/results.tsv}"
        smoke_flags "$@"
        [[ -d $DATA_ROOT ]] || "$PYTHON" "$ROOT/tests/support/benchmark_files.py" "$DATA_ROOT"
    fi
    SAVE_DIR="${SAVE_DIR:-$ROOT/runs/$BENCHMARK/$RECIPE${VARIANT:+-$VARIANT}/seed$SEED}"
    RESULTS="${RESULTS:-$EXAMPLES/results.tsv}"
    { mkdir -p "$SAVE_DIR" && [[ -w $SAVE_DIR ]]; } 2> /dev/null ||
        fail "SAVE_DIR=$SAVE_DIR cannot be written"
    [[ -w $RESULTS || (! -e $RESULTS && -w $(dirname "$RESULTS")) ]] ||
        fail "RESULTS=$RESULTS cannot be written"
    # recipe.txt: what is trained in this folder, with what settings; complete, in the end.
    local run="$BENCHMARK/$RECIPE${VARIANT:+ $VARIANT}, seed $SEED" notes=("" "" "")
    [[ -z ${pretrained[*]} ]] || run+=", from ${PRETRAINED#"$ROOT"/}"
    [[ -z ${SMOKE:-} ]] || run+=", a smoke run"
    local budget="EPOCHS=$EPOCHS BATCH_SIZE=$BATCH_SIZE SOURCE=${SOURCE:-}"
    local settings="$budget $*"
    [[ ! -f $SAVE_DIR/recipe.txt ]] || mapfile -t notes < "$SAVE_DIR/recipe.txt"
    if [[ ${notes[1]:-} == "complete: "* ]]; then # as earlier versions have it
        notes=("${notes[0]}" "${notes[1]#complete: }" complete)
    fi
    [[ ${notes[0]:-$run} == "$run" ]] ||
        fail "SAVE_DIR=$SAVE_DIR is of ${notes[0]}; name another folder for $run"
    # Half a training with other settings would be that of no row.
    [[ -n ${SMOKE:-} || ${notes[1]:-$settings} == "$settings" ]] ||
        fail "SAVE_DIR=$SAVE_DIR is of ${notes[1]%% --*}, or of other flags; name another" \
            "folder, or a VARIANT, for $budget"

    local train=(fairseq-train --user-dir "$ROOT/graphormer_plugin" --task "$TASK")
    train+=(--dataset-name "$DATASET" ${SOURCE:+--dataset-source "$SOURCE"})
    train+=(${DATA_ROOT:+--data-root "$DATA_ROOT"} --arch "$ARCH")
    train+=("${devices[@]}" --num-workers "$WORKERS" --seed "$SEED")
    train+=(--best-checkpoint-metric "${WATCH:-$METRIC}" --no-epoch-checkpoints)
    train+=(--save-dir "$SAVE_DIR")
    if [[ -n ${SMOKE:-} && $ARCH == @(grpe|graphormer|cgt|gt)_* ]]; then
        train+=(--encoder-attention-heads 2)
    fi
    train+=(--log-format simple --log-interval 50 "$@" "${smoke[@]}")
    # fairseq would make one more update of a training that --max-update has ended.
    if [[ ${notes[1]:-}${notes[2]:-} != "${settings}complete" ||
        ! -f $SAVE_DIR/checkpoint_last.pt ]]; then
        printf '%s\n' "$run" "$settings" > "$SAVE_DIR/recipe.txt"
        echo "\$ ${train[*]}"
        "${train[@]}" 2>&1 | tee -a "$SAVE_DIR/train.log"
    fi
    [[ ${RANK:-${SLURM_PROCID:-0}} == 0 ]] || return 0

    printf '%s\n' "$run" "$settings" complete > "$SAVE_DIR/recipe.txt"
    "$PYTHON" "$EXAMPLES/record.py" "$SAVE_DIR/checkpoint_$TEST_CHECKPOINT.pt" \
        --subset "$TEST_SUBSET" --metric "$METRIC" --results "$RESULTS" \
        --recipe "$BENCHMARK/$RECIPE" --variant "$VARIANT" --devices "$DEVICES"
}
