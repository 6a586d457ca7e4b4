"""examples/small_data: the sets, one small measurement, and the tables."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "examples/small_data"
sys.path.append(str(FOLDER))

import contenders  # noqa: E402
import measure  # noqa: E402
import sets  # noqa: E402
import tables  # noqa: E402

SMILES = [f"OC1{'C' * number}C1" for number in range(1, 31)]  # of as many scaffolds


@pytest.fixture
def data(tmp_path):
    """Two of the sets, with a molecule that RDKit refuses."""
    smiles = [*SMILES, "C(C)(C)(C)(C)C"]
    rng = np.random.default_rng(1)
    pd.DataFrame({"smiles": smiles, "logp": rng.normal(size=len(smiles))}).to_csv(
        tmp_path / "esol.csv", index=False
    )
    labels = rng.integers(0, 2, (len(smiles), 7)).astype(float)
    labels[:, 2] = np.nan
    names = [f"assay {number}" for number in range(7)]
    table = pd.DataFrame({"smiles": smiles} | dict(zip(names, labels.T)))
    table.to_csv(tmp_path / "toxcast.csv.gz", index=False)
    return tmp_path


def test_the_same_half_of_the_assays_is_drawn(data, monkeypatch):
    monkeypatch.setattr(sets, "MIN_LABELS", 5)
    table, scaffolds = sets.molecules(data, "toxcast")
    assert list(table) == ["smiles", "t0", "t1", "t2"]  # of six with labels
    assert len(table) == len(scaffolds) == len(SMILES)
    assert table.equals(sets.molecules(data, "toxcast")[0])


def test_a_measurement_is_made_once(data, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--sets", "esol", "--splits", "2"]
    words += ["--contenders", "forest"]

    def run(command, **_):
        monkeypatch.setattr(sys, "argv", command[1:])
        contenders.main()

    monkeypatch.setattr(contenders, "TREES", 5)
    monkeypatch.setattr(measure.subprocess, "run", run)
    monkeypatch.setattr(measure, "commit", lambda: "0")
    measure.main(words)
    assert len(capsys.readouterr().out.splitlines()) == 2
    measure.main(words)
    assert not capsys.readouterr().out
    results = tables.read(folder / "results.tsv")
    assert results.split.tolist() == [1, 2]
    split = pd.read_csv(folder / "splits/esol-1.csv")
    test = split[split.split == "test"]
    found = pd.read_csv(folder / "predictions/esol-1-forest.csv").t0
    expected = np.sqrt(np.mean((test.t0.to_numpy() - found) ** 2))
    assert results.value[0] == pytest.approx(expected, abs=1e-5)


def test_an_ensemble_is_the_mean_of_five_seeds(tmp_path, monkeypatch):
    asked = []

    def finetuned(table, kind, args):
        asked.append(args.output.name)
        return np.full((2, 1), float(args.seed))

    monkeypatch.setattr(contenders, "finetuned", finetuned)
    args = argparse.Namespace(seed=3, output=tmp_path / "esol-3-finetuned_5.csv")
    found = contenders.finetuned_5(pd.DataFrame(), "regression", args)
    assert found.tolist() == [[203.0], [203.0]]
    assert len(set(asked)) == 5 and args.seed == 3


@pytest.mark.parametrize("kind", ["regression", "binary"])
@pytest.mark.parametrize("trained", [0.25, 0.75])
def test_auto_takes_the_better_one_on_valid(tmp_path, monkeypatch, kind, trained):
    """The head's RMSE or ROC-AUC there is 0.5; those of epochs are in the log."""
    split = ["train", "train", "valid", "valid", "valid", "test"]
    table = pd.DataFrame({"smiles": "C", "split": split, "t0": [0, 1, 0, 1, 1, 0.0]})

    def head(table, kind, args, learns, predicts):
        assert (learns, predicts) == (("train",), "valid")
        off = [0.5, 0.5, 0.5] if kind == "regression" else [0, -1, -1]
        return table.t0[table.split == "valid"].to_numpy()[:, None] + [[x] for x in off]

    monkeypatch.setattr(contenders, "head", head)
    output = tmp_path / "esol-1-autostart.csv"
    for name, value in (("head", 1), ("finetuned", 2)):
        pd.DataFrame({"t0": [value]}).to_csv(
            tmp_path / f"esol-1-{name}start.csv", index=False
        )
    metric, worse = ("rmse", 0.9) if kind == "regression" else ("roc_auc", 0.1)
    (tmp_path / "esol-1-finetunedstart").mkdir()
    (tmp_path / "esol-1-finetunedstart/log").write_text(
        "".join(
            f"| valid | epoch 001 | valid on 'valid' subset | loss 3 | {metric} {value} "
            f"| wps 0.01 | best_{metric} 0.0\n"
            for value in (worse, trained, worse)
        )
    )
    args = argparse.Namespace(output=output, table=Path("esol-1.csv"), start="start.pt")
    lower = kind == "regression"
    chosen = 2 if (trained < 0.5) == lower else 1
    monkeypatch.setattr("graphormer_plugin.experiment.settings.MANY_MOLECULES", 2)
    assert contenders.auto(table, kind, args) == [[chosen]]
    monkeypatch.setattr("graphormer_plugin.experiment.settings.MANY_MOLECULES", 3)
    assert contenders.auto(table, kind, args) == [[1]]


def test_auto_is_measured_with_its_parts(data, tmp_path, monkeypatch):
    asked = []

    def run(command, **_):
        words = [str(word) for word in command]
        asked.append(words[2])
        pd.DataFrame({"t0": np.zeros(3)}).to_csv(words[4], index=False)

    monkeypatch.setattr(measure.subprocess, "run", run)
    monkeypatch.setattr(measure, "commit", lambda: "0")
    monkeypatch.setattr(measure, "parts", lambda table: ["head", "finetuned"])
    seconds = iter([0, 3, 10, 15, 20, 21])
    monkeypatch.setattr(measure, "cpu_seconds", lambda: next(seconds))
    words = [str(tmp_path / "out"), "--data", str(data), "--sets", "esol"]
    measure.main([*words, "--splits", "1", "--contenders", "auto"])
    assert asked == ["head", "finetuned", "auto"]
    results = tables.read(tmp_path / "out/results.tsv")
    assert results.seconds.tolist() == [3, 5, 9]


def test_targets_with_one_class_in_test_do_not_count():
    columns = {"t0": [0, 1, 1.0], "t1": [1, 1, np.nan]}
    table = pd.DataFrame({"smiles": "C", "split": "test"} | columns)
    assert measure.score(table, pd.DataFrame(columns).fillna(0), "binary") == (1, 1)


def test_tables(tmp_path, capsys):
    lines = ["\t".join(measure.COLUMNS)]
    for split, (ours, chemprop) in enumerate([(0.7, 0.8), (0.9, 0.94)], 1):
        for contender, value in (("head", ours), ("chemprop", chemprop)):
            row = ["esol", split, contender, "", "rmse", value, 1, 8, 1, 1, 60, "0"]
            lines.append("\t".join(map(str, row)))
    (tmp_path / "results.tsv").write_text("\n".join(lines) + "\n")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- figures: gains -->\nold\n<!-- end -->\nb\n")
    words = [str(tmp_path / "results.tsv"), "--page", str(page)]
    tables.main(words)
    output = capsys.readouterr().out
    assert "| head on the frozen start | 0.800 ± 0.100 |" in output
    assert "| chemprop | 60 |" in output
    assert "| chemprop | 2 of 5 | 0 of 5 |" in output
    tables.main([*words, "--write"])
    text = page.read_text()
    assert text.startswith("a\n") and text.endswith("b\n") and "old" not in text
    assert "| chemprop | +0.070 ± 0.030 | 1 of 1 | 1 of 1 |" in text
    tables.main([*words, "--write"])
    assert page.read_text() == text
