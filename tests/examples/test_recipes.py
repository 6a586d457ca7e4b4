"""Every recipe runs end to end on tiny data, and says what its paper reports."""

import os
import re
from pathlib import Path

import pytest
import tsv
from fairseq_cli import train as fairseq_train

from support.benchmark_files import write_all
from support.recipes import ABLATIONS, EXAMPLES, RECIPES, run_recipe
from support.training import logged, server_environment
from support.training import run as train_in_process

# In the quick suite: two kinds of label run from end to end, and each script of a name
# (grpe_small, gcn, ...) trains for a benchmark.
END_TO_END = "zinc/grpe_small cluster/gatedgcn".split()
MORE = "pcqm4m/gin_vn molpcba/graphormer_deep ablations/grpe_table10".split()
QUICK = {Path(name).name: name for name in reversed(RECIPES)}.values()
PAPERS = tsv.read(EXAMPLES / "papers.tsv")
# Metric and split of the papers' tables; PCQM4M's tests have no labels, and CSA's is the
# official validation split.
METRICS = {
    "mae valid": "pcqm4m pcqm4mv2",
    "mae test": "zinc pcqm4mv2_subset qm9_gap_subset pcqm4mv2/cgt_small "
    "pcqm4mv2/cgt_deep pcqm4mv2/cgt_small_subset",
    "roc_auc test": "molhiv",
    "ap test": "molpcba",
    "accuracy test": "mnist cifar10",
    "weighted_accuracy test": "pattern cluster",
}
MEASURED = {
    name: tuple(pair.split())
    for pair, names in METRICS.items()
    for name in names.split()
}
SYSTEMS = {"Ying 2021": "graphormer", "Park 2022": "grpe"}
SYSTEMS |= {"Menegaux 2023": "csa", "Dwivedi 2021": "gt"}
# Rows of ablations that no table prints, see the headers of the scripts.
UNPRINTED = {
    "csa_neighbours": {("zinc/cgt_zinc_rings", name) for name in ("neighbours", "all")},
    "grpe_figure5": {("molhiv/grpe_standard", f"L{hops}") for hops in range(1, 7)},
}


def slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def measured(recipe):
    return MEASURED.get(recipe) or MEASURED[recipe.split("/")[0]]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Environment in which a recipe takes a few seconds."""
    folder = tmp_path_factory.mktemp("recipes")
    return server_environment() | {"SMOKE": "1", "SMOKE_DIR": str(folder)}


@pytest.mark.xdist_group("smoke")
@pytest.mark.parametrize("name", END_TO_END + slow(MORE))
def test_from_end_to_end(name, smoke):
    """A recipe of each benchmark, and an ablation: trained, tested, in the table."""
    result = run_recipe(name, smoke)
    assert result.returncode == 0, result.stdout[-3000:]
    expected, folder = expected_rows(name), Path(smoke["SMOKE_DIR"])
    found = [
        row
        for row in tsv.read(folder / "results.tsv")
        if (row["recipe"], row["variant"]) in expected
    ]
    assert len(found) == len(expected), result.stdout[-3000:]
    for row in found:
        assert row["arch"] and int(row["parameters"]) > 0 and row["updates"] == "2"
        assert 0 <= float(row["value"]) < 1e3
        assert (row["metric"], row["subset"]) == measured(row["recipe"])
    curves = tsv.read(folder / "curves.tsv")
    splits = {(row["checkpoint"], row["split"]) for row in curves}
    if found[0]["metric"] != "roc_auc":  # of few labels it may have no value
        assert {(row["checkpoint"], "valid") for row in found} <= splits


@pytest.fixture(scope="session")
def benchmark_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks") / "data"
    write_all(folder)
    return folder


@pytest.mark.parametrize(
    "name", [*QUICK, *slow(sorted({*RECIPES} - {*QUICK}) + ABLATIONS)]
)
def test_trains(name, dry, benchmark_data, monkeypatch, fresh_fairseq):
    """Every command of every recipe and row, in this process, without checkpoints."""
    more = f"--data-root {benchmark_data} --no-save --max-update 1 --log-format json"
    trainings = [*dry(name, SMOKE="1")]
    assert trainings
    for recipe, _, arguments in trainings:
        metric, _ = measured(recipe)
        words = [*arguments, *more.split()]
        log = train_in_process(fairseq_train.cli_main, words, monkeypatch)
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
    expected = expected_rows(name)
    assert expected and expected <= set(found) and len(set(found)) == len(found)
    assert {recipe for recipe, _ in found} == {recipe for recipe, _ in expected}
    flags = {
        (recipe, *(word for word in arguments if not word.endswith("/seed1")))
        for recipe, _, arguments in trainings
    }
    assert len(flags) == len(found)


@pytest.mark.parametrize("recipe", RECIPES)
def test_header(recipe):
    """The expected value of the header is in the table of the papers."""
    path = EXAMPLES / f"{recipe}.sh"
    assert os.access(path, os.X_OK)
    header = " ".join(re.findall("^# (.*)$", path.read_text(), re.M))
    values = re.findall(
        r"(?:MAE|accuracy|AUC|AP) ([\d.]+\d)(?: \+- ([\d.]+\d))?", header
    )
    assert values == [
        (row["value"], row["spread"])
        for row in PAPERS
        if row["recipe"] == recipe and not row["variant"]
    ]


def test_every_row_of_the_table_of_papers_has_a_recipe():
    for row in PAPERS:
        assert row["recipe"] in [*RECIPES, "molhiv/random_forest"], row
        assert row["metric"] == measured(row["recipe"])[0], row


def test_values_are_those_of_the_papers(shared_data):
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no texts of the papers in {folder}")
    for row in PAPERS:
        name = SYSTEMS[row["paper"]].replace("gt", "graph_transformer")
        text = re.sub(r"\s*±\s*", "±", (folder / f"{name}.txt").read_text())
        cell = row["value"] + (f"±{row['spread']}" if row["spread"] else "")
        assert re.search(rf"(?<![\d.]){re.escape(cell)}(?!\d)", text), row


@pytest.mark.parametrize(
    "setting, why",
    [
        ("EPOCHS=0", "above 0"),
        ("SOURCE=generated:few", "generated:N"),
        ("RESULTS=/nowhere/results.tsv", "cannot be written"),
        ("DEVICES=4", "but 2 GPUs"),
    ],
)
def test_refused_setting(setting, why, flags):
    settings = {"GPUS": "2"} | dict([setting.split("=")])
    (line,) = flags("zinc/gin", settings).splitlines()
    assert line.startswith(f"error: zinc/gin: {setting}") and why in line


@pytest.fixture
def lines(flags):
    """Function that runs a recipe whose training leaves a checkpoint; its commands."""
    return lambda recipe, **more: flags(recipe, {"CHECKPOINT": "1"} | more).splitlines()


def test_a_run_goes_on_until_it_is_complete(lines, tmp_path):
    def trains(line):
        return line.startswith("$ fairseq-train ")

    for _ in range(2):
        (line,) = lines("zinc/gin", INTERRUPT="1")
        assert trains(line)
    first, recorded = lines("zinc/gin")
    assert trains(first) and re.search("^recorded .*/checkpoint_last.pt ", recorded)
    assert lines("zinc/gin") == lines("zinc/gin", WORKERS="3") == [recorded]
    notes = tmp_path / "run/recipe.txt"
    run, settings, _ = notes.read_text().splitlines()
    notes.write_text(f"{run}\ncomplete: {settings}\n")  # of an earlier version
    assert lines("zinc/gin") == [recorded]


@pytest.mark.parametrize(
    "more, this",
    [
        ({"EPOCHS": "2000", "BATCH_SIZE": "64"}, "EPOCHS=2000 BATCH_SIZE=64"),
        ({"SEED": "2"}, "zinc/gin, seed 2"),
        ({"SMOKE": "1"}, "a smoke run"),
    ],
)
def test_a_folder_of_another_run(lines, tmp_path, more, this):
    lines("zinc/gin")
    (refused,) = lines("zinc/gin", SMOKE_DIR=str(tmp_path), **more)
    assert "run is of " in refused and this in refused.partition("name another")[2]


def test_where_a_run_begins_belongs_to_it(lines, flags, tmp_path):
    grpe, one = "molhiv/grpe_standard", tmp_path / "one.pt"
    scratch = lines(grpe)
    assert "--finetune" not in scratch[0] and " --variant scratch " in scratch[1]
    assert " --variant mine " in flags(grpe, {"VARIANT": "mine", "SAVE_DIR": ""})
    one.touch()
    (refused,) = lines(grpe, PRETRAINED=str(one))
    assert f"is of {grpe} scratch, seed 1" in refused and f"from {one}" in refused
    tuned = lines(grpe, PRETRAINED=str(one), SAVE_DIR=str(tmp_path / "other"))
    assert f" --finetune-from-model {one} " in tuned[0] and " --variant  " in tuned[1]


@pytest.mark.parametrize(
    "more, budget",
    [
        ({}, "--max-update 100000 --total-num-update 100000 --warmup-updates 6000"),
        ({"BATCH_SIZE": "512"}, "--total-num-update 226666 --max-epoch 34"),
    ],
)
def test_the_budget_of_an_ablation_is_scaled(flags, more, budget):
    commands = flags("ablations/graphormer_table5", {"SEEDS": "1"} | more)
    assert commands.count(f" {budget}") == 7


@pytest.mark.parametrize(
    "recipe, batch, most",
    [("cluster/cgt_cluster", 16, 8), ("pattern/gt_sbm", 26, 2)],
)
def test_batch_size_of_the_paper_on_any_number_of_devices(recipe, batch, most, flags):
    cases = [(f"GPUS={n}", min(n, most)) for n in (1, 2, 4, 8)]
    cases += [("GPUS=3", 2), ("GPUS=4 DEVICES=2", 2)]
    cases += [("GPUS=4 DEVICE_BATCH=2", 1 if batch == 26 else 4)]
    pattern = r"--batch-size (\d+) --update-freq (\d+) "
    pattern += r"--required-batch-size-multiple 1 --distributed-world-size (\d+)"
    for words, devices in cases:
        settings = dict(word.split("=") for word in words.split())
        line, alone = flags(recipe, settings), len(settings) == 1
        each, times, world = map(int, re.search(pattern, line).groups())
        assert world == devices and each * times * world == batch, words
        assert f"--devices {devices}\n" in line, words
        if alone:
            shared = f"{devices} of {settings['GPUS']} GPUs share" in line
            assert times == 1 and shared == (devices < int(settings["GPUS"])), words


@pytest.mark.parametrize("tasks, world", [(8, 8), (2, 8), (4, 4)])
def test_slurm(tasks, world, flags):
    """Two machines of four GPUs: a task for each; a task a machine, where fairseq starts
    the processes; a task for two of the four."""
    slurm = {"SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_STEP_NUM_NODES": "2"}
    for rank in (0, 1):
        line = flags("zinc/gin", slurm | {"GPUS": "4", "SLURM_PROCID": str(rank)})
        assert f" --batch-size {128 // world} --update-freq 1 " in line
        assert f" --distributed-world-size {world} " in line
        assert ("recorded" in line) == (rank == 0)
