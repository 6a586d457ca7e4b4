"""The models of an experiment, and their options."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import experiment as module
from graphormer_plugin.experiment import run as running
from graphormer_plugin.experiment.experiment import ModelRun, saved_arrays
from graphormer_plugin.experiment.settings import FINETUNE, HEAD, SCRATCH, Settings
from support.labelled_molecules import experiment_of, molecules_of

LABELS = np.arange(12.0)[:, None]
SPLIT = dict(zip(("train", "valid", "test"), np.split(np.arange(12), [8, 10])))


@pytest.fixture
def experiment():
    """Function: an experiment of twelve molecules."""

    def experiment(labels=LABELS, splits=(SPLIT,), names=None, more=None, **options):
        table = molecules_of(labels, names=names, **(more or {}))
        return experiment_of(table, [*splits], **options)

    return experiment


def test_conformal_intervals_need_labels(experiment):
    def check(coverage=0.9, **more):
        experiment(interval="conformal", coverage=coverage, more=more).check()

    with pytest.raises(
        DatasetError,
        match="y0 has 2 labels in valid, --coverage 0.9 takes 9.*; give valid",
    ):
        check()
    check(0.6)
    with pytest.raises(DatasetError, match="conformal is for targets that are numbers"):
        check(0.6, kind="binary")


def test_what_auto_makes(experiment, monkeypatch):
    """A head; a training with options of it, above the limit of a head, or where no head
    can be fitted."""
    assert experiment().model == HEAD
    assert experiment(epochs=3).model == FINETUNE
    options = {"ensemble": 2, "descriptors": True, "trials": 1, "lr": 1.0}
    given = Settings("a.csv", "out", **options).training_flags
    assert {*given} == {"--ensemble", "--descriptors", "--trials", "--lr"}
    monkeypatch.setattr(module, "MAX_ROWS", 8)
    assert experiment().model == HEAD
    many = SPLIT | {"train": np.arange(9)}
    assert experiment(splits=[SPLIT, many]).model == FINETUNE
    assert experiment(np.ones((12, 1))).model == FINETUNE


def test_a_target_that_cannot_be_named_alone(experiment):
    alone = experiment(names=["1,2-a"], more={"extra_names": ["1,3-a"]}, model=SCRATCH)
    assert alone.fairseq_arguments(ModelRun(0, SCRATCH))["target_columns"] == "1?2-a"


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "data/features.npz"
    arrays = {"a": np.arange(1000.0), "none": None}
    for _ in range(2):  # made, then read
        found = saved_arrays(path, lambda: arrays)
        assert list(found) == ["a"] and np.array_equal(found["a"], np.arange(1000))
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="features.npz is damaged; remove it"):
            saved_arrays(path, dict)
    for text in ("", '["a", "b', "[]", "{}", "3"):
        (tmp_path / running.FINISHED_FILE).write_text(text)
        assert not running.is_finished(tmp_path)


@pytest.mark.parametrize("by_weight", [False, True])
def test_heads_alone_need_labels(experiment, by_weight):
    """A label of weight 0 does not count."""
    known = np.arange(12) >= 8
    few = {"labels": np.where(known[:, None], LABELS, np.nan)}
    if by_weight:
        few = {"more": {"weights": known.astype(float)}}
    experiment(**few).check()
    message = "--model head: y0 has too few .* in train; leave"
    with pytest.raises(DatasetError, match=message):
        experiment(**few, model=HEAD).check()


def test_limits_of_the_results(experiment, monkeypatch):
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


def test_weights_of_labels(experiment):
    """Those of molecules times those of classes, which the fitted rows give."""
    assert experiment().label_weights(np.arange(4)) is None
    labels = np.array([[0, 1.0], [0, 0], [0, np.nan], [1, 1]])

    def weights(**more):
        binary = {"kind": "binary", **more}
        return experiment(labels, more=binary, class_weights="balanced").label_weights(
            np.arange(4)
        )

    first = weights()
    assert first[:, 0] == pytest.approx([2 / 3] * 3 + [2])
    assert first[[0, 1, 3], 1] == pytest.approx([0.75, 1.5, 0.75])
    second = weights(weights=np.array([1, 2, 3, 0.0]))
    assert second[:, 0] == pytest.approx([2 / 3, 4 / 3, 2, 0])


def test_paths_of_models():
    assert ModelRun(1, FINETUNE, 2).save_dir == "replicate2/finetune3"
    assert Path(ModelRun(0, HEAD).files[1]).name == "head.npz"


def test_an_experiment_does_not_change(experiment):
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment().splits = []
    assert experiment(names=["a"]).table.targets == TargetSchema(["a"])
