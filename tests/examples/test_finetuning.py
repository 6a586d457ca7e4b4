"""examples/small_data/finetuning.py: folds, rates of layers, one short training, the table."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples/small_data"))

import finetuning
from finetuning import MIXED, Setting, Trainer, fold_of, kept, rate_groups, rmse


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


def test_comparison():
    """Gains are of the folds that both settings have."""
    lines = [("a", 1, "the default", 2.0), ("a", 2, "the default", 4.0)]
    lines += [("b", 1, "the default", 1.0)]
    lines += [("a", 1, "rate 3e-4", 1.0), ("b", 1, "rate 3e-4", 1.0)]
    results = pd.DataFrame(lines, columns=["set", "fold", "setting", "rmse"])
    errors = finetuning.errors_of(results)
    table = finetuning.comparison(errors, [*finetuning.SETTINGS]).splitlines()
    assert table[2:] == [
        "| the default | 3.000 | 1.000 |  |",
        "| rate 3e-4 | 1.000 | 1.000 | +25.0 ± 25.0 (2) |",
    ]


def test_weights_of_a_mean(tmp_path):
    """The head is right, and the other folds say so; equal weights do not."""
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
    assert len(found) == 5
    for name, error in found.items():
        assert (float(error) < 0.01) == (not name.endswith("equal weights"))
