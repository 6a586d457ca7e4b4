"""Settings of recipes: those of the papers and of their released code.

A line of a table is a recipe, its environment where there is one, and what stands in its
commands. Sources are in the headers of the recipes and in examples/baseline.sh.
"""

import pytest

ADAM = "--optimizer adamw --adam-betas (0.9, 0.999) --adam-eps 1e-8"
MACROS = {
    "ADAM": ADAM,
    "ADAM_L2": ADAM.replace("adamw ", "adam_l2 ", 1),
    "DROPOUT": "--dropout 0.1 --attention-dropout",
    "RAW": "--target-scale none",
    "HEADS": "--encoder-attention-heads",
    "BATCH": "--batch-size",
    "TIMES": "--update-freq",
    "WORLD": "--required-batch-size-multiple 1 --distributed-world-size",
    "TWO_MACHINES": "GPUS=4 SLURM_STEP_NUM_NODES=2",
    "PLATEAU": "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5",
    "GNN": "--best-checkpoint-metric loss | --lr 1e-3 --lr-scheduler reduce_lr_on_plateau "
    "--lr-shrink 0.5 | --stop-min-lr 1e-5 --max-epoch 1000 | /checkpoint_last.pt --subset test",
    "GT": "--stop-min-lr 1e-6 --max-epoch 1000 | /checkpoint_last.pt --subset",
}
# Where there are fewer epochs, fewer graphs or larger batches than in the paper, the
# schedule is scaled.
SCHEDULES = """
zinc/graphormer_slim | --warmup-updates 40000 --total-num-update 400000
zinc/graphormer_slim EPOCHS=10 | --warmup-updates 40 --total-num-update 400
pcqm4mv2/grpe_large | --warmup-updates 19797 --total-num-update 2639600
pcqm4m/graphormer_base EPOCHS=10 | --warmup-updates 2000 --total-num-update 33333
zinc/cgt_zinc | --warmup-updates 15650 --lr-period-updates 610350
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
# Lines for each script of baselines; Dwivedi et al. 2020, PNA, OGB, GRPE, CSA and GT.
OTHERS = """
zinc/gcn | {ADAM} --weight-decay 0 | --batch-size 128 | --lr-patience 10 | {GNN}
zinc/mpnn | {ADAM_L2} --weight-decay 3e-6 | --batch-size 128 | --lr-patience 20 | {GNN}
pattern/gatedgcn | --lap-pe-dim 2 | --batch-size 32 | --lr-patience 5 | {GNN}
cluster/gcn | --task node_prediction | --batch-size 64 | --lr-patience 5 | {GNN}
molhiv/pna | {ADAM_L2} --weight-decay 3e-6 | --batch-size 128 | --lr 0.01 {PLATEAU} \
| --lr-patience 20 --stop-min-lr 1e-4 --max-epoch 200 | --best-checkpoint-metric roc_auc \
| /checkpoint_best.pt --subset test
mnist/grpe_tiny | --dataset-name mnist-tenths --arch grpe_tiny | --batch-size 64 \
| {ADAM} --clip-norm 5 --weight-decay 0 --lr 2e-4 | --max-hop 3 | --max-epoch 300 \
| --dropout 0 --attention-dropout 0.1 | --warmup-updates 2580 --total-num-update 258000
mnist/cgt | --dataset-name mnist --arch cgt_pattern | --batch-size 16 | !--relative-dim \
| {ADAM} --clip-norm 1 --weight-decay 1e-5 --lr 1e-3 | --max-epoch 100 \
| --encoder-layers 3 --encoder-embed-dim 52 | --attention-dropout 0.5 \
| --rwse-dim 8 --readout mean
pcqm4m/gin_vn | {RAW} | --clamp-max 50 | --virtual-node | /checkpoint_best.pt --subset valid
zinc/gt_zinc | {ADAM} --weight-decay 0 --lr 7e-4 {PLATEAU} | --lr-patience 15 \
| --batch-size 128 | --best-checkpoint-metric loss | {RAW} | {GT}
pattern/gt_sbm | {ADAM} --weight-decay 0 --lr 5e-4 {PLATEAU} | --lr-patience 10 \
| --batch-size 26 | --best-checkpoint-metric loss | !{RAW} | --task node_prediction | {GT}
pcqm4m/gt | {ADAM} --weight-decay 0 --lr 1e-4 {PLATEAU} | --lr-patience 15 \
| --batch-size 128 | --best-checkpoint-metric mae | {RAW} | {GT}
"""
# Graphs of an update, epochs, rate, updates of the warm-up, clipping and decay; more.
# Tables 7 to 10 of Ying et al. 2021; Park et al. 2022; our choice for PATTERN; Table 6 of
# Menegaux et al. 2023. Where a paper is silent, its released code.
PAPERS = """
pcqm4m/graphormer_base 1024 300 2e-4 60000 5 0 | {DROPOUT} 0.1
pcqm4m/graphormer_deep 1024 300 1e-4 60000 5 0 | {DROPOUT} 0.3
molpcba/graphormer_deep 256 10 3e-4 821 5 0 \
| {DROPOUT} 0.3 --flag-m 4 --flag-step-size 0.001 --flag-mag 0.001
molhiv/graphormer_base 128 8 2e-4 123 0 0 \
| {DROPOUT} 0.1 --flag-m 2 --flag-step-size 0.2 --flag-mag 0
zinc/graphormer_slim 256 10000 2e-4 40000 5 0.01 | {RAW} --multi-hop-max-dist 20 {DROPOUT} 0.1
pcqm4m/grpe_standard 1024 400 2e-4 8922 5 0 | {RAW} --max-hop 5 {DROPOUT} 0.1
pcqm4mv2/grpe_large 512 400 2e-4 19797 5 0 | {RAW} --max-hop 5 {DROPOUT} 0.1
zinc/grpe_small 256 10000 2e-4 40000 0 1e-3 \
| {RAW} --max-hop 5 {DROPOUT} 0.1 --perturb-noise 0.2
molhiv/grpe_standard 72 5 2e-4 1371 5 0 | --total-num-update 2285 --max-epoch 5
molpcba/grpe_large 256 200 2e-4 4107 5 0 | --dropout 0.3 --attention-dropout 0.1
pattern/grpe_small 32 100 2e-4 3130 0 1e-3 | --max-hop 5 {DROPOUT} 0.1 --perturb-noise 0.2
zinc/cgt_zinc 32 2000 1e-3 15650 1 1e-5 | {RAW} {HEADS} 4
pattern/cgt_pattern 32 100 5e-4 1565 1 1e-5
cluster/cgt_cluster 16 100 5e-4 3125 1 1e-5
pcqm4mv2/cgt_small 256 300 5e-4 126120 1 0 | {RAW} --rwse-steps 0
pcqm4mv2/cgt_deep 256 150 1e-4 126120 1 0 | {RAW}
pcqm4mv2/cgt_small_subset 256 300 5e-4 12620 1 0 | {RAW}
"""
# The paper, and what contradicts it with VARIANT=released.
CONTRADICTIONS = """
molhiv/grpe_standard | --total-num-update 2285 | --total-num-update 45700
molpcba/grpe_large | --lr 2e-4 | --lr 3e-4
zinc/cgt_zinc | {HEADS} 4 | {HEADS} 8
pcqm4mv2/cgt_small | --warmup-updates 126120 | --warmup-updates 63060
pcqm4mv2/cgt_small | --rwse-steps 0 | --rwse-steps 16 --rwse-dim 20
pcqm4mv2/cgt_small_subset | --share-edge-encoding --rings none \
| --own-edge-encoding --rings additive
pcqm4mv2/cgt_small_subset | --max-epoch 300 | --max-epoch 100
pcqm4mv2/cgt_small_subset | --activation-fn gelu | --activation-fn relu
zinc/graphormer_slim | --clip-norm 5 | --clip-norm 0
zinc/graphormer_slim | --input-dropout 0 | --input-dropout 0.1
pcqm4m/graphormer_deep | --weight-decay 0 | --weight-decay 0.01
molhiv/graphormer_base | --warmup-updates 123 | --warmup-updates 206
molpcba/graphormer_deep | --warmup-updates 821 | --warmup-updates 855
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


@pytest.mark.parametrize("words, parts", rows(SCHEDULES + BATCHES + OTHERS))
def test_settings(words, parts, flags):
    recipe, *settings = words
    commands = flags(recipe, dict(word.split("=") for word in settings))
    check(commands, parts)
    assert "\nrecorded " in commands


@pytest.mark.parametrize("words, more", rows(PAPERS))
def test_settings_of_the_papers(words, more, flags):
    recipe, batch, epochs, rate, warmup, clip, decay = words
    schedule = "polynomial_decay --end-learning-rate 1e-9"
    parts = [
        *(f"--batch-size {batch}", f"--max-epoch {epochs}", f"--lr {rate}", ADAM),
        *(f"--warmup-updates {warmup}", f"--clip-norm {clip}"),
        f"--weight-decay {decay}",
        f"--lr-scheduler {'cosine' if 'cgt' in recipe else schedule}",
    ]
    check(flags(recipe, {}).partition("\n")[0] + " ", parts + more)


@pytest.mark.parametrize("words, parts", rows(CONTRADICTIONS))
def test_paper_and_released_code(words, parts, flags, tmp_path):
    (recipe,), (paper, released) = words, parts
    variant = {"VARIANT": "released", "SAVE_DIR": str(tmp_path / "other")}
    settings, other = (flags(recipe, more) for more in ({}, variant))
    assert settings.startswith("$ fairseq-train ") and "no setting" not in other
    check(settings, [paper, f"!{released}"])
    check(other, [released, f"!{paper}", "--variant released"])
