"""Every recipe runs end to end on tiny data, and says what its paper reports."""

import csv
import os
import re
from pathlib import Path

import pytest
from fairseq_cli import train as fairseq_train

from support.benchmark_files import write_all
from support.recipes import ABLATIONS, EXAMPLES, RECIPES, run_recipe
from support.training import logged, server_environment
from support.training import run as train_in_process

END_TO_END = """zinc/grpe_small pattern/gt_sbm cluster/gatedgcn pcqm4m/gin_vn
    pcqm4mv2/graphormer_small molhiv/grpe_standard molpcba/graphormer_deep
    ablations/grpe_table10""".split()
PAPERS = list(csv.DictReader(open(EXAMPLES / "papers.tsv"), delimiter="\t"))
# Metric and split of the papers' tables; PCQM4M's tests have no labels, and CSA's is the
# official validation split.
MEASURED = {"zinc": ("mae", "test"), "pcqm4m": ("mae", "valid")}
MEASURED |= {"pcqm4mv2": ("mae", "valid"), "molhiv": ("roc_auc", "test")}
MEASURED |= {"molpcba": ("ap", "test")}
MEASURED |= {name: ("mae", "test") for name in ("pcqm4mv2_subset", "qm9_gap_subset")}
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


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Environment in which a recipe takes a few seconds."""
    folder = tmp_path_factory.mktemp("recipes")
    return server_environment() | {"SMOKE": "1", "SMOKE_DIR": str(folder)}


@pytest.mark.xdist_group("smoke")
@pytest.mark.parametrize("name", END_TO_END)
def test_from_end_to_end(name, smoke):
    """A recipe of each benchmark, and an ablation: trained, tested, in the table."""
    result = run_recipe(name, smoke)
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
    with open(Path(smoke["SMOKE_DIR"]) / "curves.tsv", newline="") as file:
        curves = list(csv.DictReader(file, delimiter="\t"))
    splits = {(row["checkpoint"], row["split"]) for row in curves}
    if found[0]["metric"] != "roc_auc":  # of few labels it may have no value
        assert {(row["checkpoint"], "valid") for row in found} <= splits


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
    result = run_recipe("pattern/grpe_tiny", environment, "--max-epoch", "1")
    assert result.returncode == 0, result.stdout[-3000:]
    with open(results, newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert row["seed"] == "7" and row["epochs"] == "1" and row["metric"]


@pytest.mark.xdist_group("smoke")
def test_a_second_call_finds_all_done(smoke):
    run_recipe("zinc/grpe_small", smoke)
    result = run_recipe("zinc/grpe_small", smoke)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "num_updates" not in result.stdout


@pytest.mark.parametrize(
    "setting, why",
    [
        ("EPOCHS=0", "is not a whole number above 0"),
        ("SEED=abc", "is not a whole number below a billion"),
        ("WORKERS=two", "is not a whole number"),
        ("SOURCE=generated:few", "is not generated:N or generated:N:SEED"),
        ("SAVE_DIR=/dev/null/run", "cannot be written"),
        ("RESULTS=/nowhere/results.tsv", "cannot be written"),
    ],
)
def test_refused_setting(setting, why, flags):
    line = flags("zinc/gin", dict([setting.split("=")]))
    assert line == f"error: zinc/gin: {setting} {why}\n"


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
    notes = tmp_path / "run/recipe.txt"
    run, settings, _ = notes.read_text().splitlines()
    notes.write_text(f"{run}\ncomplete: {settings}\n")  # of an earlier version
    assert gin() == [recorded]
    for other in ("EPOCHS=2000 BATCH_SIZE=128", "EPOCHS=1000 BATCH_SIZE=64"):
        (refused,) = gin(**dict(word.split("=") for word in other.split()))
        assert "run is of EPOCHS=1000 BATCH_SIZE=128 SOURCE=, or of other" in refused
        assert f"name another folder, or a VARIANT, for {other} SOURCE=" in refused
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
