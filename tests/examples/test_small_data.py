"""examples/small_data: the sets, one small measurement, and the tables."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples/small_data"))

import contenders
import measure
import pilot
import sets
import spreads
import tables
import trials

from graphormer_plugin import hub
from support.training import server_environment

SMILES = [f"OC1{'C' * number}C1" for number in range(1, 31)]  # of as many scaffolds


@pytest.fixture
def data(tmp_path, rng):
    """One of the sets, with a molecule that RDKit refuses."""
    smiles = [*SMILES, "C(C)(C)(C)(C)C"]
    table = pd.DataFrame({"smiles": smiles, "logp": rng.normal(size=len(smiles))})
    table.to_csv(tmp_path / "esol.csv", index=False)
    return tmp_path


@pytest.fixture
def quick_python(monkeypatch):
    """Scripts that start their own Python start a fork of one that has all imports."""
    environment = server_environment()
    monkeypatch.setenv("RECIPE_SERVER", environment["RECIPE_SERVER"])
    python = shutil.which("python", path=environment["PATH"])
    monkeypatch.setattr(sys, "executable", python)


def test_the_same_half_of_the_assays_is_drawn(tmp_path):
    smiles = [f"{'C' * a}O{'C' * b}" for a in range(1, 18) for b in range(30)]
    table = pd.DataFrame({"smiles": smiles})
    for number in range(7):
        table[f"assay {number}"] = np.arange(510.0) % 2
    table.loc[9:, "assay 2"] = np.nan  # too few labels
    table.to_csv(tmp_path / "toxcast.csv.gz", index=False)
    found, scaffolds = sets.molecules(tmp_path, "toxcast")
    assert list(found) == ["smiles", "t0", "t1", "t2"]  # of six with labels
    assert len(found) == len(scaffolds) == 510 and found.notna().all(axis=None)
    assert found.equals(sets.molecules(tmp_path, "toxcast")[0])


@pytest.mark.long
def test_a_measurement_is_made_once(data, tmp_path, quick_python, capsys):
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--sets", "esol", "--splits", "2"]
    words += ["--contenders", "forest"]
    assert measure.main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert measure.main(words) == 0 and not capsys.readouterr().out
    results = tables.read(folder / "results.tsv")
    assert results.split.tolist() == [1, 2]
    split = pd.read_csv(folder / "splits/esol-1.csv")
    test = split[split.split == "test"]
    found = pd.read_csv(folder / "predictions/esol-1-forest.csv").t0
    expected = np.sqrt(np.mean((test.t0.to_numpy() - found) ** 2))
    assert results.value[0] == pytest.approx(expected, abs=1e-5)
    # The second split reads the features that the first one has computed.
    (shared,) = folder.glob(f"predictions/*{contenders.SECONDS}")
    assert shared.stem == "esol-2-forest" and float(shared.read_text()) > 0


def test_tables(tmp_path, capsys):
    lines = ["\t".join(measure.COLUMNS)]
    for split, (ours, chemprop) in enumerate([(0.7, 0.8), (0.9, 0.94)], 1):
        for contender, value in (("head", ours), ("chemprop", chemprop)):
            row = ["esol", split, contender, "", "rmse", value, 1, 8, 1, 1, 60, 1, "0"]
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
    for _ in range(2):
        tables.main([*words, "--write"])
        text = page.read_text()
        assert text.startswith("a\n") and text.endswith("b\n") and "old" not in text
        assert text.count("| chemprop | +0.070 ± 0.030 | 1 of 1 | 1 of 1 |") == 1
    lines.append(lines[1].replace("head\t", "head\tother"))
    (tmp_path / "results.tsv").write_text("\n".join(lines) + "\n")
    assert tables.main(words) == 2
    assert "head has the starts , other" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_predictions_that_are_not_finite(kind):
    labels = np.array([[0.0, 1.0], [1.0, 0.0]])
    predicted = np.array([[0.1, np.nan], [0.2, 0.3]])
    with pytest.raises(ValueError, match="not finite"):
        measure.mean_score(labels, predicted, kind)
    labels[0, 1] = np.nan
    value, targets = measure.mean_score(labels, predicted, kind)
    assert np.isfinite(value) and targets == (2 if kind == "regression" else 1)


def test_trials_are_made_once(data, tmp_path, monkeypatch, capsys):
    """The kernel over all blocks is the head that `measure.py` measures."""
    settings = dict([*trials.TRIALS["blocks"].settings.items()][-1:])
    settings |= {"train only": trials.head_of_train}
    settings |= {"nodes": trials.of_vectors(1, 1)}
    monkeypatch.setitem(trials.TRIALS, "mine", trials.Trial(("esol",), 2, settings))
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--trials", "mine"]
    trials.main(words)
    assert len(capsys.readouterr().out.splitlines()) == 8  # of train only on valid, too
    trials.main(words)
    assert not capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == ["splits", "trials.tsv"]
    found = pd.read_csv(folder / "trials.tsv", sep="\t")
    case = trials.Case("esol", 2, folder / "splits/esol-2.csv", folder)
    table = pd.read_csv(case.path)
    expected = contenders.head(table, "regression", case.arguments)
    expected = pd.DataFrame(expected, columns=["t0"])
    of_all = found[found.setting.str.startswith("vectors +") & (found.split == 2)]
    value, _ = measure.score(table, expected, "regression")
    assert of_all.value.tolist() == [pytest.approx(value, abs=1e-6)]
    (text,) = tables.trials(folder / "trials.tsv").values()
    first, *_, last = text.splitlines()
    assert first == "|  | esol, RMSE | esol, valid, RMSE |"
    mean, error = tables.mean_error(found[found.setting == "nodes"].value)
    assert last == f"| nodes | {mean:.3f} ± {error:.3f} |  |"


@pytest.mark.slow
def test_starts_for_a_trial(tmp_path, monkeypatch):
    """Two trainings that differ in their targets, of molecules that no set has."""
    smiles = ["C" * length + end for length in range(1, 51) for end in "ONS"]
    for one in sets.SETS.values():
        pd.DataFrame({"smiles": smiles[::5]}).to_csv(tmp_path / one.file, index=False)
    table = pd.DataFrame({"smiles": np.repeat(smiles, pilot.EVERY), "MUV-466": 0})
    table.to_csv(tmp_path / pilot.SOURCE, index=False)
    monkeypatch.setattr(pilot, "UPDATES", 2)
    words = [str(tmp_path / "out"), "--data", str(tmp_path)]
    pilot.main(words)
    folder = tmp_path / "out/pilot"
    found = pd.read_csv(folder / "molecules.csv.gz")
    assert set(found.smiles) == set(smiles) - set(smiles[::5])
    files = [folder / f"{name}.pt" for name in ("descriptors", "bits")]
    few, every = ({*hub.load(path).targets.names} for path in files)
    assert few < every == set(found.columns[2:])
    assert {name[:7] for name in every - few} == {"morgan_"}
    written = [path.stat().st_mtime_ns for path in files]
    pilot.main(words)  # all is there
    assert written == [path.stat().st_mtime_ns for path in files]


def test_score_of_intervals():
    labels = np.array([0.0, 2.0, 5.0])
    ends = np.array([[-1.0, 1.0], [2.5, 4.5], [1.0, 4.0]])
    expected = (2 + 2 + 3 + 0.5 / 0.05 + 1 / 0.05) / 3
    assert spreads.interval_score(labels, ends) == pytest.approx(expected)


def test_a_head_of_train_sees_no_label_of_valid(data, tmp_path):
    (path,) = sets.write_splits(data, tmp_path / "splits", "esol", 1)
    esol = trials.Case("esol", 1, path, tmp_path)
    found = trials.head_of_train(esol)
    default = esol.default
    assert found.keys() == {"valid", "test"}
    cases = {}
    for part in found:
        cases[part] = trials.Case("esol", 1, esol.path, esol.folder)
        cases[part].table.loc[esol.rows(part), "t0"] += 9
    for part, values in trials.head_of_train(cases["valid"]).items():
        assert len(values) == esol.rows(part).sum()
        assert np.array_equal(values, found[part])
    assert not np.allclose(cases["valid"].default, default)
    assert np.array_equal(cases["test"].default, default)


def test_shares_of_the_head_in_an_ensemble(tmp_path):
    """Of molecules of test, from the predictions of `graphormer-train --ensemble 5`."""
    case = trials.Case("esol", 1, tmp_path / "no", tmp_path)
    case.table = pd.DataFrame({"split": ["train", "test"]})
    given = np.array([[0.0, 6.0], [1, 1], [2, 2], [3, 3], [4, 4], [5, 5]])[..., None]
    case.trained = lambda *_: {trials.HEAD: given[:1], trials.FINETUNE: given[1:]}
    settings = trials.TRIALS["ensemble"].settings.values()
    found = [setting(case).tolist() for setting in settings]
    assert found == [[[3.0]], [[6.0]], [[3.5]], [[4.5]]]


@pytest.mark.parametrize("model", [spreads.linear, spreads.boosted])
def test_learned_intervals_hold_most_labels(tmp_path, model, rng):
    """Of noise that does not depend on the features; labels of test are not read."""
    case = trials.Case("esol", 1, tmp_path / "no", tmp_path)
    part = np.repeat(["train", "valid", "test"], 400)
    case.table = pd.DataFrame({"split": part, "t0": rng.normal(size=1200)})
    case.raw = {"vectors": rng.normal(size=(1200, 2))}
    found = spreads.learned(model, "vectors")(case)
    labels = case.labels("test")[:, 0]
    inside = (found.T[0] < labels) & (labels < found.T[1])
    assert found.shape == (400, 2) and 0.85 < inside.mean() < 0.95
    case.table.loc[800:, "t0"] += 9
    assert np.array_equal(spreads.learned(model, "vectors")(case), found)
