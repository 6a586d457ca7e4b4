"""Every recipe runs end to end on tiny data, and says what its paper reports."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq_cli import train as fairseq_train

from support.benchmark_files import write_all
from support.training import logged, server_environment
from support.training import run as train_in_process

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
RECIPES = sorted(
    str(path.relative_to(EXAMPLES).with_suffix(""))
    for path in EXAMPLES.glob("*/*.sh")
    if path.parent.name != "ablations"
)
ABLATIONS = sorted(f"ablations/{p.stem}" for p in EXAMPLES.glob("ablations/*.sh"))
END_TO_END = """zinc/grpe_small pattern/gt_sbm cluster/gatedgcn pcqm4m/gin_vn
    pcqm4mv2/graphormer_small molhiv/grpe_standard molpcba/graphormer_deep
    ablations/grpe_table10""".split()
PAPERS = list(csv.DictReader(open(EXAMPLES / "papers.tsv"), delimiter="\t"))
# Metric and split of the papers' tables; PCQM4M's tests have no labels, and CSA's is the
# official validation split.
MEASURED = {"zinc": ("mae", "test"), "pcqm4m": ("mae", "valid")}
MEASURED |= {"pcqm4mv2": ("mae", "valid"), "molhiv": ("roc_auc", "test")}
MEASURED |= {"molpcba": ("ap", "test")}
MEASURED |= {name: ("accuracy", "test") for name in ("mnist", "cifar10")}
MEASURED |= {name: ("weighted_accuracy", "test") for name in ("pattern", "cluster")}
MEASURED |= {
    f"pcqm4mv2/{name}": ("mae", "test")
    for name in ("cgt_small", "cgt_deep", "cgt_small_subset")
}
SYSTEMS = {"Ying 2021": "graphormer", "Park 2022": "grpe"}
SYSTEMS |= {"Menegaux 2023": "csa", "Dwivedi 2021": "gt"}
# Rows of ablations that no table prints, see the headers of the scripts.
UNPRINTED = {
    "csa_neighbours": {("zinc/cgt_zinc_rings", name) for name in ("neighbours", "all")},
    "grpe_figure5": {("molhiv/grpe_standard", f"L{hops}") for hops in range(1, 7)},
}


def measured(recipe):
    return MEASURED.get(recipe) or MEASURED[recipe.split("/")[0]]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
ENVIRONMENT["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
for setting in ("SEED", "EPOCHS", "BATCH_SIZE", "DATA_ROOT", "SAVE_DIR", "RESULTS"):
    ENVIRONMENT.pop(setting, None)


def run(recipe, environment, *arguments):
    return subprocess.run(
        ["bash", EXAMPLES / f"{recipe}.sh", *arguments],
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=300,
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Environment in which a recipe takes a few seconds."""
    folder = tmp_path_factory.mktemp("recipes")
    return server_environment() | {"SMOKE": "1", "SMOKE_DIR": str(folder)}


@pytest.mark.xdist_group("smoke")
@pytest.mark.parametrize("name", END_TO_END)
def test_from_end_to_end(name, smoke):
    """A recipe of each benchmark, and an ablation: trained, tested, in the table."""
    result = run(name, smoke)
    assert result.returncode == 0, result.stdout[-3000:]
    with open(Path(smoke["SMOKE_DIR"]) / "results.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    expected = expected_rows(name)
    found = [row for row in rows if (row["recipe"], row["variant"]) in expected]
    assert len(found) == len(expected), result.stdout[-3000:]
    for row in found:
        assert row["arch"] and int(row["parameters"]) > 0 and row["updates"] == "2"
        assert 0 <= float(row["value"]) < 1e3
        assert (row["metric"], row["subset"]) == measured(row["recipe"])


@pytest.fixture
def dry(tmp_path):
    """Runs a recipe or an ablation with commands that only note what they are called
    with; returns (recipe, variant, arguments of fairseq-train) of each training."""
    notes, bin = tmp_path / "notes", tmp_path / "bin"
    note = f'printf "%s\\n" "$@" END >> {notes}'
    (bin / "python").parent.mkdir()
    (bin / "fairseq-train").write_text(f"#!/bin/sh\n{note}\n")
    (bin / "python").write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo 0 || {note}\n')
    for path in bin.iterdir():
        path.chmod(0o755)
    environment = {"PATH": f"{bin}:{os.environ['PATH']}", "PRETRAINED": "none"}
    environment |= {"SMOKE_DIR": str(tmp_path), "SAVE_DIR": str(tmp_path / "run")}
    (tmp_path / "data").mkdir()

    def trainings(name, **more):
        result = run(name, environment | {"SEEDS": "1"} | more)
        assert result.returncode == 0, result.stdout[-3000:]
        commands = [
            call.split("\n") for call in notes.read_text().split("\nEND\n")[:-1]
        ]
        for train, record in zip(commands[::2], commands[1::2], strict=True):
            recipe, variant = (
                record[record.index(option) + 1] for option in ("--recipe", "--variant")
            )
            yield recipe, variant, train

    return trainings


@pytest.fixture(scope="session")
def benchmark_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks") / "data"
    write_all(folder)
    return folder


@pytest.mark.parametrize("name", RECIPES + ABLATIONS)
def test_trains(name, dry, benchmark_data, monkeypatch, fresh_fairseq):
    """Every command of every recipe and row, in this process, without checkpoints."""
    for recipe, _, arguments in dry(name, SMOKE="1"):
        metric, _ = measured(recipe)
        more = (
            f"--data-root {benchmark_data} --no-save --max-update 1 --log-format json"
        )
        log = train_in_process(
            fairseq_train.cli_main, [*arguments, *more.split()], monkeypatch
        )
        (numbers,) = logged(log, "valid")
        assert f"valid_{metric}" in numbers
        # the best checkpoint is the one with the largest, but of an error
        more_is_better = "--maximize-best-checkpoint-metric" in arguments
        by_loss = arguments[arguments.index("--best-checkpoint-metric") + 1] == "loss"
        assert more_is_better == (metric != "mae" and not by_loss)


def expected_rows(name):
    """(recipe, variant) of what a recipe or an ablation writes into the table."""
    if name in RECIPES:
        return {(name, "")}
    short = name.removeprefix("ablations/")
    return UNPRINTED.get(short) or {
        (row["recipe"], row["variant"])
        for row in PAPERS
        if row["variant"] and short == f"{SYSTEMS[row['paper']]}_table{row['table']}"
    }


@pytest.mark.parametrize("name", ABLATIONS)
def test_rows_of_an_ablation(name, dry):
    """Those of the paper's table, each with flags of its own."""
    trainings = list(dry(name))
    found = [(recipe, variant) for recipe, variant, _ in trainings]
    assert len(set(found)) == len(found)
    expected = expected_rows(name)
    assert expected and expected <= set(found)
    assert {recipe for recipe, _ in found} == {recipe for recipe, _ in expected}
    folder = re.compile(r".*/seed1$")
    flags = [
        (recipe, *(word for word in arguments if not folder.match(word)))
        for recipe, _, arguments in trainings
    ]
    assert len(set(flags)) == len(flags)


@pytest.mark.parametrize("recipe", RECIPES)
def test_header(recipe):
    """The expected value of the header is the one in the table of the papers."""
    text = (EXAMPLES / f"{recipe}.sh").read_text()
    assert text.startswith("#!/usr/bin/env bash\n# ") and 'recipe.sh"' in text
    assert os.access(EXAMPLES / f"{recipe}.sh", os.X_OK)
    header = " ".join(
        line[2:] for line in text.splitlines()[1:] if line.startswith("# ")
    )
    assert "Settings: " in header
    assert re.search(r"Hardware|hardware not stated|one V100|8 V100", header)
    found = re.findall(
        r"(?:MAE|accuracy|AUC|AP) (\d+\.\d+)(?: \+- (\d+\.\d+))?", header
    )
    expected = [
        (row["value"], row["spread"])
        for row in PAPERS
        if row["recipe"] == recipe and not row["variant"]
    ]
    assert found == expected


def test_values_are_those_of_the_papers(shared_data):
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no texts of the papers in {folder}")
    files = {"graphormer": "graphormer", "grpe": "grpe", "csa": "csa"}
    files["gt"] = "graph_transformer"
    for row in PAPERS:
        text = (folder / f"{files[SYSTEMS[row['paper']]]}.txt").read_text()
        text = re.sub(r"\s*±\s*", "±", text)
        cell = row["value"] + (f"±{row['spread']}" if row["spread"] else "")
        assert re.search(rf"(?<![\d.]){re.escape(cell)}(?!\d)", text), row


def test_every_row_of_the_table_of_papers_has_a_recipe():
    forests = {"molhiv/random_forest"}  # examples/random_forest.py
    assert {row["recipe"] for row in PAPERS} <= {*RECIPES, *forests}
    for row in PAPERS:
        assert row["metric"] == measured(row["recipe"])[0]


@pytest.mark.slow
def test_one_for_real(tmp_path):
    """Without the server, as a user types it."""
    results = tmp_path / "results.tsv"
    environment = {"SMOKE": "1", "SMOKE_DIR": str(tmp_path), "SEED": "7"}
    environment["RESULTS"] = str(results)
    (tmp_path / "data").mkdir()  # its graphs are generated
    result = run("pattern/grpe_tiny", environment, "--max-epoch", "1")
    assert result.returncode == 0, result.stdout[-3000:]
    with open(results, newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert row["seed"] == "7" and row["epochs"] == "1" and row["metric"]


@pytest.mark.xdist_group("smoke")
def test_a_second_call_finds_all_done(smoke):
    run("zinc/grpe_small", smoke)
    result = run("zinc/grpe_small", smoke)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "num_updates" not in result.stdout


@pytest.fixture
def flags(tmp_path):
    """Runs a recipe with commands that do nothing; what it would call.

    GPUS is the number of devices; CHECKPOINT=1: the training leaves one, INTERRUPT=1: and
    ends too early.
    """
    commands = {
        "fairseq-train": '[ -z "$CHECKPOINT" ] || > "$SAVE_DIR/checkpoint_last.pt"\n'
        '[ -z "$INTERRUPT" ]',
        "python": 'case "$1" in -c) echo "$GPUS" ;; *record.py) echo "recorded $*" ;; esac',
        "nvidia-smi": "",
    }
    for name, code in commands.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PRETRAINED": "none"}
    environment |= {"SAVE_DIR": str(tmp_path / "run"), "GPUS": "0"}
    return lambda recipe, more: run(recipe, environment | more).stdout


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


def test_released_variant_that_is_the_recipe(flags):
    """All of GT's settings are in its released code."""
    output = flags("zinc/gt_zinc", {"VARIANT": "released"})
    assert "no setting of the paper contradicts the released code" in output
    assert " --variant released " in output


def test_released_variants_of_an_ablation(dry):
    rows = {row[1]: row[2] for row in dry("ablations/csa_table4", VARIANT="released")}
    assert len(rows) == 6 and all(name.endswith("-released") for name in rows)
    for name, arguments in rows.items():
        heads = [
            value for flag, value in zip(arguments, arguments[1:]) if flag == HEADS
        ][-1]
        assert heads == ("8" if name.startswith("rwse") else "4")
        assert ("--own-edge-encoding" in arguments) == (heads == "4")
        assert ("10" in arguments) == name.startswith("spde")


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
    expected += ["--relative-dim 20", "--attention-dropout 0.5", "--readout mean"]
    for part in expected:
        assert f" {part} " in line, part


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


@pytest.mark.parametrize(
    "setting, why",
    [
        ("EPOCHS=0", "is not a whole number above 0"),
        ("EPOCHS=1.5", "is not a whole number above 0"),
        ("BATCH_SIZE=many", "is not a whole number above 0"),
        ("DEVICES=0", "is not a whole number above 0"),
        ("DEVICE_BATCH=-1", "is not a whole number above 0"),
        ("SEED=abc", "is not a whole number below a billion"),
        ("SEED=99999999999", "is not a whole number below a billion"),
        ("WORKERS=two", "is not a whole number"),
        ("SOURCE=generated:few", "is not generated:N or generated:N:SEED"),
        ("SAVE_DIR=/dev/null/run", "cannot be written"),
        ("RESULTS=/nowhere/results.tsv", "cannot be written"),
    ],
)
def test_refused_setting(setting, why, flags):
    line = flags("zinc/gin", dict([setting.split("=")]))
    assert line == f"error: zinc/gin: {setting} {why}\n"


def test_without_the_environment(tmp_path):
    for name in ("bash", "basename", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    result = run("zinc/gin", {"PATH": str(tmp_path)})
    assert result.returncode == 2, result.stdout
    assert result.stdout.endswith("source .venv/bin/activate\n")
    assert result.stdout.count("\n") == 1


def test_foreign_variables_do_no_harm(flags):
    foreign = {
        "WORLD_SIZE": "1",
        "TASK": "build",
        "TEST_SUBSET": "valid",
        "DIRECTION": "max",
    }
    line = flags("zinc/gin", foreign)
    assert " --task graph_prediction " in line and "--maximize" not in line
    assert "checkpoint_last.pt --subset test --metric mae " in line


def test_a_run_goes_on_until_it_is_complete(flags, tmp_path):
    def gin(**more):
        return flags("zinc/gin", {"CHECKPOINT": "1"} | more).splitlines()

    def trains(lines):
        return lines[0].startswith("$ fairseq-train ")

    for _ in range(2):
        (line,) = gin(INTERRUPT="1")
        assert trains([line])
    first, recorded = gin()
    assert trains([first]) and re.search("^recorded .*/checkpoint_last.pt ", recorded)
    assert gin() == [recorded] and gin(WORKERS="3") == [recorded]
    assert len(gin(EPOCHS="2000", INTERRUPT="1")) == 1
    assert trains(gin(EPOCHS="2000"))
    assert gin(EPOCHS="2000") == [recorded]
    (other,) = gin(SEED="2")
    assert (
        "run is of zinc/gin, seed 1; name another folder for zinc/gin, seed 2" in other
    )
    (other,) = gin(SMOKE="1", SMOKE_DIR=str(tmp_path))
    assert other.endswith(" for zinc/gin, seed 1, a smoke run")


def test_where_a_run_begins_belongs_to_it(flags, tmp_path):
    def grpe(**more):
        return flags("molhiv/grpe_standard", {"CHECKPOINT": "1"} | more).splitlines()

    scratch = grpe()
    assert "--finetune" not in scratch[0] and " --variant scratch " in scratch[1]
    assert " --variant mine " in flags(
        "molhiv/grpe_standard", {"VARIANT": "mine", "SAVE_DIR": ""}
    )
    (tmp_path / "one.pt").touch()
    (refused,) = grpe(PRETRAINED=str(tmp_path / "one.pt"))
    assert "is of molhiv/grpe_standard scratch, seed 1; name another" in refused
    assert refused.endswith(
        f" for molhiv/grpe_standard, seed 1, from {tmp_path}/one.pt"
    )
    tuned = grpe(PRETRAINED=str(tmp_path / "one.pt"), SAVE_DIR=str(tmp_path / "other"))
    assert f" --finetune-from-model {tmp_path}/one.pt " in tuned[0]
    assert " --variant  " in tuned[1]


@pytest.mark.parametrize(
    "settings, budget",
    [
        ({}, "--max-update 100000 --total-num-update 100000 --warmup-updates 6000"),
        ({"EPOCHS": "10"}, "--total-num-update 33333 --max-epoch 10"),
        ({"BATCH_SIZE": "512"}, "--total-num-update 226666 --max-epoch 34"),
    ],
)
def test_the_budget_of_an_ablation_is_scaled(flags, settings, budget):
    lines = flags("ablations/graphormer_table5", {"SEEDS": "1"} | settings)
    assert lines.count(f" {budget}") == 7
    assert lines.count(" --max-update ") == (0 if settings else 7)


def test_every_run_of_an_ablation_has_its_own_folder(flags):
    lines = flags("ablations/grpe_table10", {"SEEDS": "1 2"})
    found = re.findall(r"--save-dir \S*/run/(\S+)", lines)
    assert found == [
        f"zinc/grpe_small/{name}/seed{seed}"
        for name in ("shared", "independent")
        for seed in (1, 2)
    ]
    assert lines.count("recorded") == 4


@pytest.mark.parametrize(
    "recipe, batch, used",
    [
        ("zinc/grpe_small", 256, (1, 2, 2, 4, 8)),
        ("pcqm4m/graphormer_base", 1024, (1, 2, 2, 4, 8)),
        ("cluster/cgt_cluster", 16, (1, 2, 2, 4, 8)),
        ("pattern/gt_sbm", 26, (1, 2, 2, 2, 2)),
    ],
)
def test_batch_size_of_the_paper_on_any_number_of_devices(recipe, batch, used, flags):
    def check(line, devices):
        found = re.search(
            r"--batch-size (\d+) --update-freq (\d+) "
            r"--required-batch-size-multiple 1 --distributed-world-size (\d+)",
            line,
        )
        assert found, line
        each, times, world = map(int, found.groups())
        assert world == devices and each * times * world == batch
        assert f"--devices {devices}\n" in line
        return each

    for gpus, devices in zip((1, 2, 3, 4, 8), used):
        line = flags(recipe, {"GPUS": str(gpus)})
        assert check(line, devices) * devices == batch
        assert (f"{devices} of {gpus} GPUs share" in line) == (devices < gpus)
    check(flags(recipe, {"GPUS": "4", "DEVICE_BATCH": "2"}), 1 if batch == 26 else 4)
    check(flags(recipe, {"GPUS": "4", "DEVICES": "2"}), 2)
    assert "DEVICES=4, but 2 GPUs" in flags("zinc/gin", {"GPUS": "2", "DEVICES": "4"})


def test_torchrun_started_by_slurm(flags):
    """One task a machine, four processes each: the ranks are torchrun's."""
    slurm = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "DEVICE_BATCH": "32"}
    line = flags("zinc/gin", slurm | {"RANK": "1", "WORLD_SIZE": "4"})
    assert " --batch-size 32 --update-freq 1 " in line
    assert " --distributed-world-size 4 " in line and "recorded" not in line
    slurm["SLURM_PROCID"] = "1"
    assert "recorded" in flags("zinc/gin", slurm | {"RANK": "0", "WORLD_SIZE": "4"})
    line = flags("zinc/gin", {"RANK": "0", "WORLD_SIZE": "4", "DEVICES": "2"})
    assert "DEVICES=2, but torchrun or Slurm started 4 processes" in line


@pytest.mark.parametrize("tasks, world", [(8, 8), (2, 8), (4, 4)])
def test_slurm(tasks, world, flags):
    """Two machines of four GPUs: a task for each; a task a machine, where fairseq starts
    the processes; a task for two of the four."""
    slurm = {
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NUM_NODES": "2",
        "GPUS": "4",
    }
    for rank in (0, 1):
        line = flags("zinc/gin", slurm | {"SLURM_PROCID": str(rank)})
        assert f" --batch-size {128 // world} --update-freq 1 " in line
        assert f" --distributed-world-size {world} " in line
        assert ("recorded" in line) == (rank == 0)


def test_devices_that_do_not_share_the_batch_size():
    result = run("zinc/grpe_small", {"DEVICES": "3"})
    assert result.returncode == 2, result.stdout
    assert "batch size 256 is not a multiple of DEVICES (3)" in result.stdout


def test_missing_pretraining(tmp_path):
    result = run("molhiv/grpe_standard", {"PRETRAINED": str(tmp_path / "none.pt")})
    assert result.returncode == 2, result.stdout
    assert (
        "none.pt to start from; run examples/pcqm4m/grpe_standard.sh" in result.stdout
    )
