"""Settings that recipes compute: schedules, batches of devices, variants.

A line of a table is a recipe, its environment where there is one, and what stands in its
commands.
"""

import pytest

MACROS = {
    "BATCH": "--batch-size",
    "TIMES": "--update-freq",
    "WORLD": "--required-batch-size-multiple 1 --distributed-world-size",
    "TWO_MACHINES": "GPUS=4 SLURM_STEP_NUM_NODES=2",
}
# Where there are fewer epochs, fewer graphs or larger batches than in the paper, the
# schedule is scaled.
SCHEDULES = """
zinc/graphormer_slim | --warmup-updates 40000 --total-num-update 400000
zinc/graphormer_slim EPOCHS=10 | --warmup-updates 40 --total-num-update 400
pcqm4mv2/grpe_large | --warmup-updates 19797 --total-num-update 2639600
pcqm4m/graphormer_base EPOCHS=10 | --warmup-updates 2000 --total-num-update 33333
zinc/cgt_zinc | --warmup-updates 15650 --lr-period-updates 610350
zinc/gps_zinc | --warmup-updates 15650 --lr-period-updates 610350
zinc/cgt_zinc EPOCHS=1 | --warmup-updates 7 --lr-period-updates 306
pattern/cgt_pattern EPOCHS=1 SOURCE=generated:9:1 | --warmup-updates 1 --lr-period-updates 1
pattern/grpe_small SOURCE=generated:1000:1 | --warmup-updates 320 --total-num-update 3200
pcqm4m/gcn EPOCHS=10 | --lr-deacy-period 35688
molhiv/graphormer_base | --warmup-updates 123 --total-num-update 2064
ablations/graphormer_table5 SEEDS=1 | --max-update 100000 --total-num-update 100000 \
--warmup-updates 6000
ablations/graphormer_table5 SEEDS=1 BATCH_SIZE=512 | --total-num-update 226666 --max-epoch 34
"""
# Devices share the paper's batch evenly. Slurm's two machines have a task for each GPU, or
# one each, where fairseq starts the processes, or one for two GPUs.
BATCHES = """
cluster/cgt_cluster GPUS=1 | {BATCH} 16 {TIMES} 1 {WORLD} 1
cluster/cgt_cluster GPUS=3 | {BATCH} 8 {TIMES} 1 {WORLD} 2
cluster/cgt_cluster GPUS=8 | {BATCH} 2 {TIMES} 1 {WORLD} 8
cluster/cgt_cluster GPUS=4 DEVICES=2 | {BATCH} 8 {TIMES} 1 {WORLD} 2
cluster/cgt_cluster GPUS=4 DEVICE_BATCH=2 | {BATCH} 2 {TIMES} 2 {WORLD} 4
pattern/gt_sbm GPUS=4 | {BATCH} 13 {TIMES} 1 {WORLD} 2
pattern/gt_sbm GPUS=4 DEVICE_BATCH=2 | {BATCH} 2 {TIMES} 13 {WORLD} 1
pcqm4mv2/graphormer_base GPUS=8 | {BATCH} 128 {TIMES} 1 {WORLD} 8 --fp16
pcqm4mv2/graphormer_base GPUS=0 | {BATCH} 1024 {TIMES} 1 {WORLD} 1 --cpu
zinc/graphormer_slim GPUS=1 | {BATCH} 256 {TIMES} 1 {WORLD} 1 --amp
zinc/gin {TWO_MACHINES} SLURM_STEP_NUM_TASKS=8 | {BATCH} 16 {TIMES} 1 {WORLD} 8
zinc/gin {TWO_MACHINES} SLURM_STEP_NUM_TASKS=2 | {BATCH} 16 {TIMES} 1 {WORLD} 8
zinc/gin {TWO_MACHINES} SLURM_STEP_NUM_TASKS=4 | {BATCH} 32 {TIMES} 1 {WORLD} 4
"""
# The paper, and what contradicts it with VARIANT=released.
CONTRADICTIONS = """
molhiv/grpe_standard | --total-num-update 2285 | --total-num-update 45700
zinc/cgt_zinc | --encoder-attention-heads 4 | --encoder-attention-heads 8
pcqm4mv2/cgt_small | --node-encodings none | --node-encodings random_walks:16 --node-encoding-dim 20
pcqm4mv2/cgt_small_subset | --share-edge-encoding --rings none \
| --own-edge-encoding --rings additive
zinc/graphormer_slim | --clip-norm 5 | --clip-norm 0
"""


def rows(table):
    """Words of the first cell, and the other cells, of each line."""
    text = table.strip().replace("\n\n", "\n").format(**MACROS)
    lines = [line.split(" | ") for line in text.splitlines()]
    return [(first.split(), more) for first, *more in lines]


def check(commands, parts):
    """Whole words of the commands; with ! in front, they must be absent."""
    for part in parts:
        found = f"{part.lstrip('!')} " in commands.replace("\n", " \n")
        assert found != part.startswith("!"), part


@pytest.mark.parametrize("words, parts", rows(SCHEDULES + BATCHES))
def test_settings(words, parts, flags):
    recipe, *settings = words
    commands = flags(recipe, dict(word.split("=") for word in settings))
    check(commands, parts)
    assert "\nrecorded " in commands


@pytest.mark.parametrize("words, parts", rows(CONTRADICTIONS))
def test_paper_and_released_code(words, parts, flags, tmp_path):
    (recipe,), (paper, released) = words, parts
    variant = {"VARIANT": "released", "SAVE_DIR": str(tmp_path / "other")}
    settings, other = (flags(recipe, more) for more in ({}, variant))
    assert settings.startswith("$ fairseq-train ") and "no setting" not in other
    check(settings, [paper, f"!{released}"])
    check(other, [released, f"!{paper}", "--variant released"])
