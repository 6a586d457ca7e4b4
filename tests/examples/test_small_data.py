"""examples/small_data: sets, small measurements, tables, and fine-tuning."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples/small_data"))

import contenders
import finetuning
import measure
import sets
import spreads
import tables
import trials
from finetuning import MIXED, Setting, Trainer, fold_of, kept, rate_groups, rmse

SMILES = [f"OC1{'C' * number}C1" for number in range(1, 31)]  # of as many scaffolds


@pytest.fixture
def data(tmp_path, rng):
    """One of the sets, with a molecule that RDKit refuses."""
    smiles = [*SMILES, "C(C)(C)(C)(C)C"]
    table = pd.DataFrame({"smiles": smiles, "logp": rng.normal(size=len(smiles))})
    table.to_csv(tmp_path / "esol.csv", index=False)
    return tmp_path


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
def test_a_measurement_is_made_once(data, tmp_path, capsys):
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--sets", "esol", "--splits", "1"]
    words += ["--contenders", "forest"]
    assert measure.main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert measure.main(words) == 0 and not capsys.readouterr().out
    results = tables.read(folder / "results.tsv")
    split = pd.read_csv(folder / "splits/esol-1.csv")
    test = split[split.split == "test"]
    found = pd.read_csv(folder / "predictions/esol-1-forest.csv").t0
    expected = np.sqrt(np.mean((test.t0.to_numpy() - found) ** 2))
    assert results.value[0] == pytest.approx(expected, abs=1e-5)


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
    for _ in range(2):
        tables.main([*words, "--write"])
        text = page.read_text()
        assert text.startswith("a\n") and text.endswith("b\n") and "old" not in text
        assert text.count("| chemprop | +0.070 ± 0.030 | 1 of 1 | 1 of 1 |") == 1
    lines.append(lines[1].replace("head\t", "head\tother"))
    (tmp_path / "results.tsv").write_text("\n".join(lines) + "\n")
    assert tables.main(words) == 2
    assert "head has the starts , other" in capsys.readouterr().err


def test_predictions_that_are_not_finite():
    labels = np.array([[0.0, 1.0], [1.0, 0.0]])
    predicted = np.array([[0.1, np.nan], [0.2, 0.3]])
    with pytest.raises(ValueError, match="not finite"):
        measure.mean_score(labels, predicted, "regression")
    labels[0, 1] = np.nan
    assert measure.mean_score(labels, predicted, "regression")[1] == 2


def test_trials_are_made_once(data, tmp_path, monkeypatch, capsys):
    """The kernel over all blocks is the head that `measure.py` measures."""
    settings = {"all": trials.of_blocks(*trials.BLOCKS)}
    settings |= {"train only": trials.head_of_train, "nodes": trials.of_vectors(1, 1)}
    monkeypatch.setitem(trials.TRIALS, "mine", trials.Trial(("esol",), 2, settings))
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--trials", "mine"]
    trials.main(words)
    assert len(capsys.readouterr().out.splitlines()) == 8  # of train only on valid, too
    trials.main(words)
    assert not capsys.readouterr().out
    found = pd.read_csv(folder / "trials.tsv", sep="\t")
    case = trials.Case("esol", 2, folder / "splits/esol-2.csv", folder)
    table = pd.read_csv(case.path)
    expected = contenders.head(table, "regression", case.arguments)
    expected = pd.DataFrame(expected, columns=["t0"])
    value, _ = measure.score(table, expected, "regression")
    of_all = found[(found.setting == "all") & (found.split == 2)].value
    assert of_all.tolist() == [pytest.approx(value, abs=1e-6)]


def test_score_of_intervals():
    labels = np.array([0.0, 2.0, 5.0])
    ends = np.array([[-1.0, 1.0], [2.5, 4.5], [1.0, 4.0]])
    expected = (2 + 2 + 3 + 0.5 / 0.05 + 1 / 0.05) / 3
    assert spreads.interval_score(labels, ends) == pytest.approx(expected)


def test_a_head_of_train_sees_no_label_of_valid(data, tmp_path):
    (path,) = sets.write_splits(data, tmp_path / "splits", "esol", 1)
    esol = trials.Case("esol", 1, path, tmp_path)
    other = trials.Case("esol", 1, path, tmp_path)
    other.table.loc[esol.rows("valid"), "t0"] += 9
    found, again = trials.head_of_train(esol), trials.head_of_train(other)
    for part in ("valid", "test"):
        assert len(found[part]) == esol.rows(part).sum()
        assert np.array_equal(found[part], again[part])
    assert not np.allclose(esol.default, other.default)  # which learns from valid, too


@pytest.fixture(scope="module")
def trainer():
    """Labels that grow with the number of carbon atoms."""
    smiles = ["C" * length + end for length in range(1, 11) for end in "ONS"]
    return Trainer(pd.DataFrame({"smiles": smiles, "t0": np.arange(30.0)}))


def test_folds_are_a_partition():
    folds = [fold_of(23, number) for number in range(finetuning.FOLDS)]
    for fold in folds:
        parts = np.concatenate([fold.train, fold.valid, fold.test])
        assert sorted(parts) == list(range(23)) and len(fold.valid)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(23))


def test_rates_of_layers(trainer):
    model = trainer.model(np.arange(30))
    count = len(model.encoder.layers)

    def scales(**options):
        return [group["scale"] for group in rate_groups(model, Setting(**options))]

    assert scales(decay=0.5)[:2] == [0.5 ** (count + 1), 0.5**count]
    assert scales(decay=1, backbone=0.1) == [0.1] * (count + 1) + [1]
    groups = rate_groups(model, Setting(frozen=0.5))
    trained = [all(w.requires_grad for w in group["params"]) for group in groups]
    half = round(count / 2) + 1  # with the embeddings
    assert trained == [False] * half + [True] * (count + 2 - half)


def test_a_training_learns(trainer):
    short = {"epochs": 4, "batch_size": 4}
    fold = fold_of(30, 0)
    mean = trainer.labels[fold.train].mean()
    predicted = trainer(fold, Setting(**short), 1)
    labels = trainer.labels[fold.test, 0].numpy()
    assert rmse(predicted, labels) < 0.8 * rmse(mean.item(), labels)
    assert np.array_equal(trainer(fold, Setting(**short), 1), predicted)
    assert not np.array_equal(trainer(fold, Setting(thaw=1, **short), 1), predicted)


def test_weights_of_a_mean(tmp_path):
    """The head is right, and the other folds say so; fixed weights of others do not."""
    labels = np.random.default_rng(0).normal(size=40)
    sets = {"a": pd.DataFrame({"split": "train", "t0": labels})}
    lines = []
    for seed in (1, 2, 3):
        test = fold_of(len(labels), seed - 1).test
        for setting, values in zip(MIXED, (labels, labels**2, np.ones(40))):
            np.save(kept(tmp_path, "a", seed, setting), values[test])
            lines.append({"set": "a", "fold": seed, "setting": setting, "rmse": 1.0})
    errors = finetuning.errors_of(pd.DataFrame(lines))
    table = finetuning.mixtures(errors, tmp_path, sets).splitlines()[2:]
    found = {line.split(" | ")[0].strip("| "): line.split(" | ")[1] for line in table}
    assert len(found) == 8
    for name, error in found.items():
        assert (float(error) < 0.01) == (name not in list(finetuning.FIXED)[:4])
