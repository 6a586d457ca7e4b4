"""What recipes set is what the papers and their released code say."""

import pytest


@pytest.mark.parametrize(
    "recipe, schedule, settings",
    [
        (
            "zinc/graphormer_slim",
            "--warmup-updates 40000 --total-num-update 400000",
            {},
        ),
        (
            "zinc/graphormer_slim",
            "--warmup-updates 40 --total-num-update 400",
            {"EPOCHS": 10},
        ),
        (
            "zinc/grpe_small",
            "--warmup-updates 160 --total-num-update 1565",
            {"EPOCHS": 5, "BATCH_SIZE": 32},
        ),
        (
            "pcqm4mv2/grpe_large",
            "--warmup-updates 19797 --total-num-update 2639600",
            {},
        ),
        (
            "pcqm4m/graphormer_base",
            "--warmup-updates 2000 --total-num-update 33333",
            {"EPOCHS": 10},
        ),
        ("zinc/cgt_zinc", "--warmup-updates 15650 --lr-period-updates 610350", {}),
        ("zinc/cgt_zinc", "--warmup-updates 7 --lr-period-updates 306", {"EPOCHS": 1}),
        (
            "pattern/cgt_pattern",
            "--warmup-updates 1 --lr-period-updates 1",
            {"EPOCHS": 1, "SOURCE": "generated:9:1"},
        ),
        (
            "pattern/grpe_small",
            "--warmup-updates 320 --total-num-update 3200",
            {"SOURCE": "generated:1000:1"},
        ),
        ("cluster/gt_sbm", "--lr-patience 1 --stop-min-lr 1e-6", {"EPOCHS": 100}),
        ("pcqm4m/gcn", "--lr-deacy-period 356880", {}),
        ("pcqm4m/gcn", "--lr-deacy-period 35688", {"EPOCHS": 10}),
        ("molhiv/graphormer_base", "--warmup-updates 123 --total-num-update 2064", {}),
    ],
)
def test_schedule(recipe, schedule, settings, flags):
    """That of the paper; scaled where there are fewer epochs, graphs or larger batches."""
    line = flags(recipe, {name: str(value) for name, value in settings.items()})
    assert f" {schedule} " in line and "\nrecorded " in line


ADAM = "--optimizer adam --adam-betas (0.9, 0.999) --adam-eps 1e-8"
ADAM_L2 = ADAM.replace("adam ", "adam_l2 ", 1)
DROPOUT = "--dropout 0.1 --attention-dropout"
TASK_OF_NODES = "--task node_prediction"
RAW, HEADS = "--target-scale none", "--encoder-attention-heads"


@pytest.mark.parametrize(
    "recipe, batch, epochs, rate, warmup, clip, decay, more",
    [
        # Tables 7 to 10 of Ying et al. 2021; where they are silent, its
        # released code, as the recipes' headers say
        (
            "pcqm4m/graphormer_small",
            *(1024, 300, "3e-4", 60000, 5, "0"),
            f"{DROPOUT} 0.1",
        ),
        (
            "pcqm4m/graphormer_base",
            *(1024, 300, "2e-4", 60000, 5, "0"),
            f"{DROPOUT} 0.1",
        ),
        (
            "pcqm4m/graphormer_deep",
            *(1024, 300, "1e-4", 60000, 5, "0"),
            f"{DROPOUT} 0.3",
        ),
        (
            "molpcba/graphormer_deep",
            *(256, 10, "3e-4", 821, 5, "0"),
            f"{DROPOUT} 0.3 --flag-m 4 --flag-step-size 0.001 --flag-mag 0.001",
        ),
        (
            "molhiv/graphormer_base",
            *(128, 8, "2e-4", 123, 0, "0"),
            f"{DROPOUT} 0.1 --flag-m 2 --flag-step-size 0.2 --flag-mag 0",
        ),
        (
            "zinc/graphormer_slim",
            *(256, 10000, "2e-4", 40000, 5, "0.01"),
            f"--target-scale none --multi-hop-max-dist 20 {DROPOUT} 0.1",
        ),
        # Park et al. 2022; what it leaves open is of the released code
        *(
            (
                *(name, batch, 400, "2e-4", 3 * each, 5, "0"),
                f"--target-scale none --max-hop 5 {DROPOUT} 0.1",
            )
            for name, batch, each in (
                ("pcqm4m/grpe_standard", 1024, 2974),
                ("pcqm4m/grpe_large", 512, 5948),
                ("pcqm4mv2/grpe_standard", 1024, 3300),
                ("pcqm4mv2/grpe_large", 512, 6599),
            )
        ),
        (
            "zinc/grpe_small",
            *(256, 10000, "2e-4", 40000, 0, "1e-3"),
            f"--target-scale none --max-hop 5 {DROPOUT} 0.1 --perturb-noise 0.2",
        ),
        *(
            (
                *(f"molhiv/{name}", 72, 5, "2e-4", 3 * 457, 5, "0"),
                "--total-num-update 2285 --max-epoch 5",
            )
            for name in ("grpe_standard", "grpe_large")
        ),
        *(
            (
                *(f"molpcba/{name}", 256, 200, "2e-4", 3 * 1369, 5, "0"),
                "--dropout 0.3 --attention-dropout 0.1",
            )
            for name in ("grpe_standard", "grpe_large")
        ),
        # Our choice, see their headers
        *(
            (
                *(f"pattern/{name}", 32, 100, "2e-4", 3130, 0, "1e-3"),
                f"--max-hop 5 {DROPOUT} 0.1 --perturb-noise 0.2",
            )
            for name in ("grpe_small", "grpe_tiny")
        ),
        # Table 6 of Menegaux et al. 2023, and the configs of its released code
        ("zinc/cgt_zinc", 32, 2000, "1e-3", 50 * 313, 1, "1e-5", f"{RAW} {HEADS} 4"),
        (
            "zinc/cgt_zinc_rings",
            *(32, 2000, "1e-3", 50 * 313, 1, "1e-5", f"{RAW} {HEADS} 4"),
        ),
        ("pattern/cgt_pattern", 32, 100, "5e-4", 5 * 313, 1, "1e-5", ""),
        ("cluster/cgt_cluster", 16, 100, "5e-4", 5 * 625, 1, "1e-5", ""),
        (
            "pcqm4mv2/cgt_small",
            *(256, 300, "5e-4", 10 * 12612, 1, "0", f"{RAW} --rwse-steps 0"),
        ),
        ("pcqm4mv2/cgt_deep", 256, 150, "1e-4", 10 * 12612, 1, "0", RAW),
        ("pcqm4mv2/cgt_small_subset", 256, 300, "5e-4", 10 * 1262, 1, "0", RAW),
    ],
)
def test_settings_of_the_papers(
    recipe, batch, epochs, rate, warmup, clip, decay, more, flags
):
    line = flags(recipe, {}).partition("\n")[0] + " "
    expected = [f"--batch-size {batch}", f"--max-epoch {epochs}", f"--lr {rate}", ADAM]
    expected += [f"--warmup-updates {warmup}", f"--clip-norm {clip}", more]
    expected += [f"--weight-decay {decay}"]
    if "cgt" in recipe:
        expected += ["--lr-scheduler cosine"]
    else:
        expected += ["--lr-scheduler polynomial_decay --end-learning-rate 1e-9"]
    for part in expected:
        assert f" {part} " in line or not part, part


@pytest.mark.parametrize(
    "recipe, paper, released",
    [  # the sources of both are in the recipes' headers
        ("molhiv/grpe_standard", "--total-num-update 2285", "--total-num-update 45700"),
        ("molpcba/grpe_large", "--lr 2e-4", "--lr 3e-4"),
        ("zinc/cgt_zinc", f"{HEADS} 4", f"{HEADS} 8"),
        ("pcqm4mv2/cgt_small", "--warmup-updates 126120", "--warmup-updates 63060"),
        ("pcqm4mv2/cgt_small", "--rwse-steps 0", "--rwse-steps 16 --rwse-dim 20"),
        (
            "pcqm4mv2/cgt_small_subset",
            "--share-edge-encoding --rings none",
            "--own-edge-encoding --rings additive",
        ),
        ("pcqm4mv2/cgt_small_subset", "--max-epoch 300", "--max-epoch 100"),
        (
            "pcqm4mv2/cgt_small_subset",
            "--activation-fn gelu",
            "--activation-fn relu",
        ),
        ("zinc/graphormer_slim", "--clip-norm 5", "--clip-norm 0"),
        ("zinc/graphormer_slim", "--input-dropout 0", "--input-dropout 0.1"),
        ("pcqm4m/graphormer_deep", "--weight-decay 0", "--weight-decay 0.01"),
        ("molhiv/graphormer_base", "--warmup-updates 123", "--warmup-updates 206"),
        ("molpcba/graphormer_deep", "--warmup-updates 821", "--warmup-updates 855"),
    ],
)
def test_paper_and_released_code(recipe, paper, released, flags, tmp_path):
    """What contradicts each other: the paper, and VARIANT=released."""
    variant = {"VARIANT": "released", "SAVE_DIR": str(tmp_path / "other")}
    settings, other = (
        flags(recipe, more).replace("\n", " \n") for more in ({}, variant)
    )
    assert settings.startswith("$ fairseq-train ") and " --variant released " in other
    assert f" {paper} " in settings and f" {released} " not in settings
    assert f" {released} " in other and f" {paper} " not in other
    assert "no setting" not in other


@pytest.mark.parametrize(
    "recipe, batch, patience, more",
    [  # the sources, and what is our choice, are in baseline.sh
        ("zinc/gcn", 128, 10, f"{ADAM} --weight-decay 0"),
        ("zinc/gatedgcn", 128, 10, "--target-scale none"),
        ("zinc/pna", 128, 20, f"{ADAM_L2} --weight-decay 3e-6"),
        ("zinc/mpnn", 128, 20, f"{ADAM_L2} --weight-decay 3e-6"),
        ("pattern/gcn", 64, 5, f"{ADAM} --weight-decay 0"),
        ("cluster/gcn", 64, 5, "--task node_prediction"),
        ("pattern/graphsage", 64, 5, "--task node_prediction"),
        ("pattern/gatedgcn", 32, 5, "--lap-pe-dim 2"),
        ("cluster/gatedgcn", 32, 5, "--lap-pe-dim 20"),
        ("pattern/gatedgcn_100k", 128, 5, "--encoder-embed-dim 70"),
        ("pattern/gat", 128, 5, "--arch gat"),
        ("cluster/gin", 128, 5, "--arch gin"),
        ("pattern/gcn_100k", 128, 5, "--encoder-embed-dim 146"),
    ],
)
def test_settings_of_the_baselines(recipe, batch, patience, more, flags):
    train, tested, *_ = flags(recipe, {}).replace("\n", " \n").split("\n")
    expected = [more, f"--batch-size {batch}", "--best-checkpoint-metric loss"]
    expected += ["--lr 1e-3 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5"]
    expected += [f"--lr-patience {patience} --stop-min-lr 1e-5 --max-epoch 1000"]
    for part in expected:
        assert f" {part} " in train, part
    assert "--maximize" not in train and "/checkpoint_last.pt --subset test" in tested


def test_settings_of_pna_on_molhiv(flags):
    """The command in PNA's README and its config, section 10 of released.md."""
    train, tested, *_ = flags("molhiv/pna", {}).replace("\n", " \n").split("\n")
    expected = [f"{ADAM_L2} --weight-decay 3e-6", "--batch-size 128"]
    expected += [
        "--best-checkpoint-metric roc_auc",
        "--maximize-best-checkpoint-metric",
    ]
    expected += ["--lr 0.01 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5"]
    expected += ["--lr-patience 20 --stop-min-lr 1e-4 --max-epoch 200"]
    for part in expected:
        assert f" {part} " in train, part
    assert "/checkpoint_best.pt --subset test" in tested


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_settings_on_superpixels(data, flags, tmp_path):
    """mnist.sh, cifar.sh and gpp.py of GRPE; mnist-CSA.yaml and cifar10-CSA.yaml."""
    epoch = {"mnist": 860, "cifar10": 704}[data]  # of 64 graphs an update
    line = flags(f"{data}/grpe_tiny", {}).replace("\n", " \n")
    expected = [f"--dataset-name {data}-tenths --arch grpe_tiny", "--batch-size 64"]
    expected += [f"{ADAM} --clip-norm 5 --weight-decay 0 --lr 2e-4", "--max-hop 3"]
    expected += ["--dropout 0 --attention-dropout 0.1", "--max-epoch 300"]
    expected += [f"--warmup-updates {3 * epoch} --total-num-update {300 * epoch}"]
    for part in expected:
        assert f" {part} " in line, part
    folder = {"SAVE_DIR": str(tmp_path / "cgt")}
    line = flags(f"{data}/cgt", folder).replace("\n", " \n")
    expected = [f"--dataset-name {data} --arch cgt_pattern", "--batch-size 16"]
    expected += [f"{ADAM} --clip-norm 1 --weight-decay 1e-5 --lr 1e-3"]
    expected += ["--encoder-layers 3 --encoder-embed-dim 52", "--max-epoch 100"]
    expected += ["--attention-dropout 0.5", "--rwse-dim 8 --readout mean"]
    for part in expected:
        assert f" {part} " in line, part
    assert "--relative-dim" not in line  # dim_pe: 20 is of nodes; pairs have D / 2


@pytest.mark.parametrize("data, largest", [("pcqm4m", 50), ("pcqm4mv2", 20)])
def test_settings_of_ogb(data, largest, flags):
    line = flags(f"{data}/gin_vn", {})
    for part in ("--target-scale none", f"--clamp-max {largest}", "--virtual-node"):
        assert f" {part} " in line
    assert "/checkpoint_best.pt --subset valid" in line


@pytest.mark.parametrize(
    "recipe, rate, patience, batch, watched",
    [  # configs/*.json and main_*.py of the released code
        ("zinc/gt_zinc", "7e-4", 15, 128, "loss"),
        ("pattern/gt_sbm", "5e-4", 10, 26, "loss"),
        ("cluster/gt_sbm", "5e-4", 10, 32, "loss"),
        ("pcqm4m/gt", "1e-4", 15, 128, "mae"),
        ("pcqm4m/gt_wide", "1e-4", 15, 128, "mae"),
    ],
)
def test_settings_of_gt(recipe, rate, patience, batch, watched, flags):
    line = flags(recipe, {})
    expected = (
        f"{ADAM} --weight-decay 0 --lr {rate} --lr-scheduler reduce_lr_on_plateau"
    )
    assert f" {expected} " in line and f" --batch-size {batch} " in line
    assert f" --lr-patience {patience} --stop-min-lr 1e-6 --max-epoch 1000" in line
    assert f" --best-checkpoint-metric {watched} " in line and "--maximize" not in line
    assert "/checkpoint_last.pt --subset " in line
    assert (RAW in line) == (TASK_OF_NODES not in line)
