"""Every recipe runs end to end on tiny data, and says what its paper reports."""

import os
import re
from pathlib import Path

import pytest
import tsv
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq_cli import train as fairseq_train

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import ARCHITECTURES
from support.architectures import OGB, num_weights
from support.benchmark_files import write_all
from support.recipes import ABLATIONS, EXAMPLES, RECIPES, run_recipe
from support.training import logged, server_environment
from support.training import run as train_in_process

# In the quick suite: two kinds of label run from end to end, and a recipe of each benchmark
# trains. models/test_architectures.py has the models.
END_TO_END = "zinc/grpe_small cluster/gatedgcn".split()
MORE = "pcqm4m/gin_vn molpcba/graphormer_deep ablations/grpe_table10".split()
QUICK = {name.split("/")[0]: name for name in reversed(RECIPES)}.values()
PAPERS = tsv.read(EXAMPLES / "papers.tsv")
METRICS = dict.fromkeys(("mnist", "cifar10"), "accuracy")  # in no paper's table
METRICS |= dict.fromkeys(("pcqm4mv2_subset", "qm9_gap_subset", "is2re"), "mae")
METRICS |= {row["recipe"].split("/")[0]: row["metric"] for row in PAPERS}
SYSTEMS = {"Ying 2021": "graphormer", "Park 2022": "grpe"}
SYSTEMS |= {"Menegaux 2023": "csa", "Dwivedi 2021": "gt", "Tönshoff 2023": "gcn"}
SYSTEMS |= {"Kim 2022": "tokengt", "Ma 2023": "grit", "Shirzad 2023": "exphormer"}
NOTES = {"gt": "graph_transformer.txt", "tokengt": "tokengt.md"}
NOTES |= dict.fromkeys(("gcn", "grit", "exphormer"), "hybrids.md")
# Rows of ablations that no table prints, see the headers of the scripts.
UNPRINTED = {
    "csa_neighbours": {("zinc/cgt_zinc_rings", name) for name in ("neighbours", "all")},
    "grpe_figure5": {("molhiv/grpe_standard", f"L{hops}") for hops in range(1, 7)},
}


def slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def measured(recipe):
    """Metric and split. PCQM4M's tests have no labels; CSA's is the official valid."""
    benchmark, name = recipe.split("/")
    unlabelled = benchmark in ("pcqm4m", "pcqm4mv2") and "cgt" not in name
    return METRICS[benchmark], "valid" if unlabelled else "test"


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
    more = f"--data-root {benchmark_data} --no-save --log-format json"
    trainings = [*dry(name, SMOKE="1")]
    assert trainings
    for recipe, _, arguments in trainings:
        metric, _ = measured(recipe)
        words = [*arguments, *more.split()]
        log = train_in_process(fairseq_train.cli_main, words, monkeypatch)
        *_, numbers = logged(log, "valid")
        assert 0 <= float(numbers[f"valid_{metric}"]) < 1e3


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
    trainings = [*dry(name)]
    flags = {
        (recipe, variant): (recipe, *(word for word in words if "/seed1" not in word))
        for recipe, variant, words in trainings
    }
    expected = expected_rows(name)
    assert expected and expected <= flags.keys()
    assert {recipe for recipe, _ in flags} == {recipe for recipe, _ in expected}
    assert len({*flags.values()}) == len(trainings)


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


@pytest.mark.parametrize("name", [n for n in RECIPES if n.startswith("peptides_func/")])
def test_weights_of_peptides_func(name, dry):
    """The header has their number, at most the benchmark's 500,000."""
    ((_, _, words),) = dry(name)
    args = vars(parse_args_and_arch(get_training_parser(), words))
    given = ARCHITECTURES[args["arch"]].options().keys() & args.keys()
    targets = TargetSchema.of([*"abcdefghij"])
    options = {option: args[option] for option in given}
    weights = num_weights(args["arch"], OGB, targets, **options)
    assert weights <= 500_000
    assert f" {weights:,} weights" in (EXAMPLES / f"{name}.sh").read_text()


def test_every_row_of_the_table_of_papers_has_a_recipe():
    for row in PAPERS:
        assert row["recipe"] in RECIPES, row
        assert row["metric"] == measured(row["recipe"])[0], row


def test_values_are_those_of_the_papers(shared_data):
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"put texts of the papers into {folder}")
    for row in PAPERS:
        system = SYSTEMS[row["paper"]]
        name = NOTES.get(system, f"{system}.txt")
        text = re.sub(r"\s*±\s*", "±", (folder / name).read_text())
        cell = row["value"] + (f"±{row['spread']}" if row["spread"] else "")
        if name == "hybrids.md":  # has fractions
            cell = f"{float(cell) / 100:.4f}"
        assert re.search(rf"(?<![\d.]){re.escape(cell)}(?!\d)", text), row


def test_refused_setting(flags):
    (line,) = flags("zinc/gin", {"EPOCHS": "0"}).splitlines()
    assert line.startswith("error: zinc/gin: EPOCHS=0") and "above 0" in line


@pytest.fixture
def lines(flags):
    """Function that runs a recipe whose training leaves a checkpoint; its commands."""
    return lambda recipe, **more: flags(recipe, {"CHECKPOINT": "1"} | more).splitlines()


def test_a_run_goes_on_until_it_is_complete(lines):
    for _ in range(2):
        (line,) = lines("zinc/gin", INTERRUPT="1")
        assert line.startswith("$ fairseq-train ")
    again, recorded = lines("zinc/gin")
    assert again == line and re.search("^recorded .*/checkpoint_last.pt ", recorded)
    assert lines("zinc/gin") == lines("zinc/gin", WORKERS="3") == [recorded]


def test_a_folder_of_another_run(lines):
    lines("zinc/gin")
    for setting in ("EPOCHS=2000", "SEED=2", "SMOKE=1"):
        (refused,) = lines("zinc/gin", **dict([setting.split("=")]))
        assert "run is of " in refused and "name another" in refused


def test_where_a_run_begins_belongs_to_it(lines, flags, tmp_path):
    grpe, one = "molhiv/grpe_standard", tmp_path / "one.pt"
    scratch = lines(grpe)
    assert "--finetune" not in scratch[0] and " --variant scratch " in scratch[1]
    mine = {"VARIANT": "mine", "SAVE_DIR": "", "SMOKE": "1"}
    assert " --variant mine " in flags(grpe, mine)
    one.touch()
    (refused,) = lines(grpe, PRETRAINED=str(one))
    assert f"is of {grpe} scratch, seed 1" in refused and f"from {one}" in refused
    tuned = lines(grpe, PRETRAINED=str(one), SAVE_DIR=str(tmp_path / "other"))
    assert f" --finetune-from-model {one} " in tuned[0] and " --variant  " in tuned[1]


def test_the_first_process_records(flags):
    slurm = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "GPUS": "4"}
    outputs = [flags("zinc/gin", slurm | {"SLURM_PROCID": rank}) for rank in "01"]
    assert ["recorded" in output for output in outputs] == [True, False]
