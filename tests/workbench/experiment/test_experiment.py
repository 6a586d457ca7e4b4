"""The models of an experiment, and their options."""

import numpy as np
import pytest

from graphormer_plugin.workbench.experiment import experiment as module
from graphormer_plugin.workbench.experiment import run as running
from graphormer_plugin.workbench.experiment.experiment import saved_arrays
from graphormer_plugin.workbench.experiment.settings import FINETUNE, HEAD, TREES
from support.labelled_molecules import experiment_of, molecules_of

LABELS = np.arange(12.0)[:, None]
SPLIT = dict(zip(("train", "valid", "test"), np.split(np.arange(12), [8, 10])))


def experiment(labels=LABELS, splits=(SPLIT,), more=None, **options):
    """An experiment of twelve molecules."""
    return experiment_of(molecules_of(labels, **(more or {})), [*splits], **options)


def test_what_auto_makes(monkeypatch):
    """A head; trees for several targets above its limit; a training with options of it, or
    where no head can be fitted: a label of weight 0 does not count."""
    assert experiment().model == HEAD
    assert experiment(epochs=3).model == FINETUNE
    assert experiment(np.ones((12, 1))).model == FINETUNE
    weights = (np.arange(12) >= 8).astype(float)
    assert experiment(more={"weights": weights}).model == FINETUNE
    monkeypatch.setattr(module, "MAX_ROWS", 8)
    assert experiment().model == HEAD
    many = SPLIT | {"train": np.arange(9)}
    assert experiment(splits=[SPLIT, many]).model == HEAD
    several = np.tile(LABELS, 2)
    assert experiment(several).model == HEAD
    assert experiment(several, splits=[SPLIT, many]).model == TREES
    assert experiment(several, splits=[SPLIT, many], epochs=3).model == FINETUNE


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "data/features.npz"
    arrays, shapes = {"a": np.arange(1000.0), "none": None}, {"a": (None,)}
    for _ in range(2):  # made, then read
        saved = saved_arrays(path, lambda: arrays, shapes)
        assert list(saved) == ["a"] and np.array_equal(saved["a"], np.arange(1000))
    wrong = [
        {"a": (999,)},
        {"a": (1000, 1)},
        {"b": (1000,)},
    ]  # shapes for other molecules
    for shapes in wrong:
        with pytest.raises(ValueError, match="features.npz is damaged; remove it"):
            saved_arrays(path, dict, shapes)
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(ValueError, match="features.npz is damaged; remove it"):
        saved_arrays(path, dict, {})
    for text in ("", '["a", "b', "[]"):
        (tmp_path / running.FINISHED_FILE).write_text(text)
        assert not running.is_finished(tmp_path)


def test_limits_of_the_results(monkeypatch):
    (text,) = experiment().warnings()
    assert text == (
        "metrics of test say little, it has 2 molecules with a label; --folds K tests "
        "every molecule once"
    )
    for one_split in ({"split": "time:x"}, {"interval": "conformal"}):
        assert experiment(**one_split).warnings() == [text.partition(";")[0]]
    labels = np.where(np.arange(12) == 11, np.nan, LABELS.T).T
    assert experiment(labels, more={"given_split": SPLIT}).warnings() == [
        "metrics of test say little, it has 1 molecule with a label"
    ]
    monkeypatch.setattr(module, "FEW_TESTED", 3)
    monkeypatch.setattr(module, "MAX_ROWS", 9)
    # Test molecules of all runs count, each once; two runs may differ in their seeds.
    assert len(experiment(splits=[SPLIT, SPLIT], trials=2).warnings()) == 1
    both = [SPLIT, SPLIT | {"test": np.array([8, 9])}]
    (text,) = experiment(splits=both, trials=2).warnings()
    assert text.startswith("--trials searches on the first split, ")
    (text,) = experiment(splits=both).warnings()
    assert text == "heads are fitted to 9 of 10 molecules"


def test_weights_of_labels():
    """Those of molecules times those of classes, which the fitted rows give."""
    rows = np.arange(4)
    assert (experiment().label_weights(rows) == 1).all()
    labels = np.array([[0, 1.0], [0, 0], [0, np.nan], [1, 1]])

    def weights(**more):
        binary = {"kind": "binary", **more}
        asked = experiment(labels, more=binary, class_weights="balanced")
        return asked.label_weights(rows)

    first = weights()
    assert first[:, 0] == pytest.approx([2 / 3] * 3 + [2])
    assert first[[0, 1, 3], 1] == pytest.approx([0.75, 1.5, 0.75])
    second = weights(weights=np.array([1, 2, 3, 0.0]))
    assert second[:, 0] == pytest.approx([2 / 3, 4 / 3, 2, 0])
