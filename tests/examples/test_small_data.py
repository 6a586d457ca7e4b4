"""examples/small_data: the sets, one measurement from the command to the tables."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples/small_data"))

import benchmarks
import tdc

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


def test_the_sets_of_tdc(tmp_path, rng):
    """Large scaffolds are train first; each fit has the test rows, and its figures are those of
    the predictions."""
    smiles = [
        f"{'C' * k}{ring}"
        for ring in ("c1ccccc1", "C1CC1", "N1CCCC1", "C1CO1")
        for k in range(1, 9)
    ]
    split = np.array(tdc.scaffold_split(smiles, 1))
    assert (split == "train").sum() == 24 and len({*split[:8]}) == 1
    assert any(tdc.scaffold_split(smiles, seed) != split.tolist() for seed in tdc.SEEDS)
    folder = tmp_path / "admet_group/vdss_lombardo"
    folder.mkdir(parents=True)
    table = pd.DataFrame({"Drug_ID": 1, "Drug": smiles, "Y": rng.normal(size=32)})
    table.to_csv(folder / "train_val.csv", index=False)

    def train(fit, place, options):
        (place / "model").mkdir(exist_ok=True)
        test = fit[fit.split == "test"] if "split" in fit else fit
        found = test.assign(replicate=1, y_predicted=test.y + 1, y_std=1.0)
        found.to_csv(place / "model/predictions_test.csv", index=False)

    for count in (1, 7):
        tdc.measure(tmp_path, tmp_path / "tdc.tsv", ["vdss_lombardo"], "abc", train)
        found = pd.read_csv(tmp_path / "tdc.tsv", sep="\t")
        assert len(found) == count and (found.coverage90 == 1).all()
        assert (found.value == 1).all() and (found.low <= found.value).all()
        table[:9].to_csv(folder / "test.csv", index=False)
    assert found.model.tolist()[1:3] == [tdc.WHOLE, f"{tdc.PROTOCOL} 1"]
    assert tdc.page_rows(found)[-1][-1] == "1.000"
