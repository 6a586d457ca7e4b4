"""examples/small_data: the sets, one measurement from the command to the tables."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples/small_data"))

import benchmarks

from support.training import server_environment

SMILES = [f"OC1{'C' * number}C1" for number in range(1, 31)]
WORDS = "--moleculeace {0} --biogen {0}/biogen.csv --sets CHEMBL1_Ki".split()


@pytest.fixture
def data(tmp_path, rng):
    """A set of either benchmark; every fifth molecule is test."""
    split = np.where(np.arange(30) % 5, "train", "test")
    table = pd.DataFrame({"smiles": SMILES, "y": rng.normal(size=30), "split": split})
    table.assign(cliff_mol=np.arange(30) % 2).to_csv(tmp_path / "CHEMBL1_Ki.csv")
    table.assign(endpoint="rPPB").to_csv(tmp_path / "biogen.csv")
    return tmp_path


@pytest.mark.long
def test_a_set_is_measured_once(data, monkeypatch, capsys):
    """The teacher's vectors take its place, as its environment is another one."""
    vectors = np.random.default_rng(1).normal(size=(30, 5))
    monkeypatch.setattr(benchmarks, "teacher", lambda *_: vectors)
    # graphormer-train beside this Python is a fork of the server.
    environment = server_environment()
    monkeypatch.setattr(sys, "executable", f"{environment['SHIMS']}/python")
    monkeypatch.setenv("RECIPE_SERVER", environment["RECIPE_SERVER"])
    words = [str(data / "out"), *(word.format(data) for word in WORDS)]
    words += ["--models", "graphormer-train", "minimol", "--minimol", "echo"]
    assert benchmarks.main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert benchmarks.main(words) == 0 and not capsys.readouterr().out
    results = pd.read_csv(data / "out/results.tsv", sep="\t").set_index("model")
    # The head or the trees are chosen; the other one stands beside.
    chosen, beside, last = results.index
    assert (chosen, last) == ("graphormer-train", "minimol")
    columns = {"head": "head", "boosted trees": "trees"}
    found = pd.read_csv(
        data / "out/CHEMBL1_Ki/graphormer-train/model/predictions_test.csv"
    )
    for model, column in {chosen: "predicted", beside: columns[beside]}.items():
        errors, row = found[f"y_{column}"] - found.y, results.loc[model]
        assert row.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), abs=1e-5)
        cliffs = np.sqrt(np.mean(errors[found.cliff == 1] ** 2))
        assert row.rmse_cliffs == pytest.approx(cliffs, abs=1e-5)


def test_the_page_has_the_tables_of_the_figures(tmp_path):
    folder = Path(benchmarks.HERE)
    page = tmp_path / "page.md"
    page.write_text((folder / "README.md").read_text())
    benchmarks.write(page, pd.read_csv(folder / "benchmarks.tsv", sep="\t"))
    assert page.read_text() == (folder / "README.md").read_text()
