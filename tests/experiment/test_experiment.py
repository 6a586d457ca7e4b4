"""The steps of an experiment, without trainings."""

import dataclasses

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import plan, references, results
from graphormer_plugin.experiment import run as running
from graphormer_plugin.experiment.plan import Member
from graphormer_plugin.experiment.results import kept_arrays
from graphormer_plugin.experiment.settings import (
    FINETUNE,
    HEAD,
    SCRATCH,
    Settings,
)
from graphormer_plugin.experiment.steps import forest

LABELS = np.arange(12.0)[:, None]
SPLIT = dict(zip(("train", "valid", "test"), np.split(np.arange(12), [8, 10])))


def set_model(experiment, model, **options):
    experiment.settings = Settings("a.csv", "out", model=model, **options)


def test_the_mean_of_an_ensemble(experiment, tmp_path):
    experiment.settings = Settings("a.csv", str(tmp_path), model=FINETUNE, ensemble=2)
    (run,) = running.do_runs(experiment)
    assert run.chosen == "fine-tuned" and run.calibrates
    assert run.checkpoints == [
        f"replicate1/finetune{number}/checkpoint_best.pt" for number in (1, 2)
    ]
    assert run.reason == "fine-tuned, valid rmse 0.250"
    assert run.predictions["mean"].values[0] == pytest.approx(LABELS[:10].mean())
    experiment.settings = Settings("a.csv", str(tmp_path), model=HEAD)
    (run,) = running.do_runs(experiment)
    assert run.chosen == "head" and not run.calibrates


def test_conformal_intervals_need_labels(experiment, tmp_path):
    experiment.settings = Settings("a.csv", str(tmp_path), interval="conformal")
    with pytest.raises(
        DatasetError, match="y has 2 labels in valid, --coverage 0.9 takes 9.*--ratio"
    ):
        experiment.check()
    experiment.table.given_split = SPLIT
    with pytest.raises(DatasetError, match="or more; give valid more labelled rows"):
        experiment.check()
    experiment.settings = dataclasses.replace(experiment.settings, coverage=0.6)
    experiment.check()
    (run,) = running.do_runs(experiment)
    assert run.interval.coverage == 0.6
    assert run.interval.factor == pytest.approx([0.5])
    experiment.table.targets = TargetSchema(["y"], kind="binary")
    with pytest.raises(DatasetError, match="conformal is for targets that are numbers"):
        experiment.check()


def test_what_auto_makes(experiment, monkeypatch):
    """A head; a training with options of it, above the limit of a head, or where no head
    can be fitted."""

    assert experiment.model == FINETUNE
    experiment.settings = Settings("a.csv", "out")
    assert experiment.model == HEAD
    options = {"ensemble": 2, "descriptors": True, "trials": 1, "lr": 1.0}
    given = Settings("a.csv", "out", **options).training_flags
    assert {*given} == {"--ensemble", "--descriptors", "--trials", "--lr"}
    monkeypatch.setattr(plan, "MAX_ROWS", 8)
    assert experiment.model == HEAD
    experiment.splits = [SPLIT, SPLIT | {"train": np.arange(9)}]
    assert experiment.model == FINETUNE
    experiment.splits = [SPLIT]
    experiment.table.labels = np.ones((12, 1))
    del experiment.unfit
    assert experiment.model == FINETUNE


def test_a_target_that_cannot_be_named_alone(experiment):
    experiment.table.targets = TargetSchema(["1,2-a"])
    experiment.table.extra_names = ["1,3-a"]
    assert experiment.line(Member(0, SCRATCH))["target_columns"] == "1?2-a"
    set_model(experiment, SCRATCH)
    experiment.check()
    experiment.table.extra_names = ["1.2-a"]
    with pytest.raises(DatasetError, match="columns 1,2-a, 1.2-a, .* rename '1,2-a'"):
        experiment.check()
    set_model(experiment, HEAD)
    experiment.check()


def test_each_run_is_calibrated_by_its_own_molecules(experiment, monkeypatch):
    """A test molecule may be one that another run is validated on."""
    other = {"train": SPLIT["train"], "valid": SPLIT["test"], "test": SPLIT["valid"]}
    experiment.splits = [SPLIT, other]
    splits_of = lambda table, runs: [id(run.split) for run in runs]  # noqa: E731
    monkeypatch.setattr(results, "calibration", splits_of)
    found = [run.scale for run in running.do_runs(experiment)]
    assert found == [[id(SPLIT)], [id(other)]]


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "data/features.npz"
    shapes = {"a": (1000,), "none": (1000, None)}
    arrays = {"a": np.arange(1000.0), "none": None}
    for _ in range(2):  # made, then read
        found = kept_arrays(path, lambda: arrays, shapes, ["none"])
        assert list(found) == ["a"] and np.array_equal(found["a"], np.arange(1000))
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(DatasetError, match="features.npz is damaged; remove it"):
            kept_arrays(path, dict, shapes)
    for wrong in (
        {},
        {"b": np.arange(1000)},
        {"a": np.arange(1000), "b": np.arange(1000)},
        {"a": np.arange(1000), "none": np.arange(1000)},
        {"a": np.arange(1000)[None]},
        {"a": np.array(["x"] * 1000)},
        {"a": np.array([{}] * 1000)},
    ):
        np.savez(path, **wrong)
        with pytest.raises(DatasetError, match="features.npz is damaged; remove it"):
            kept_arrays(path, dict, shapes, ["none"])
    np.savez(path, a=np.arange(999))
    with pytest.raises(DatasetError, match="features.npz is of other .* --out"):
        kept_arrays(path, dict, shapes, ["none"])
    for text in ("", '["a", "b', "[]", "{}", "3"):
        (tmp_path / running.FINISHED_FILE).write_text(text)
        assert not running.is_finished(tmp_path)


@pytest.mark.parametrize("by_weight", [False, True])
def test_heads_alone_need_labels(experiment, by_weight):
    """A label of weight 0 is none."""
    known = np.arange(12) >= 8
    if by_weight:
        experiment.table.weights = known.astype(float)
    else:
        experiment.table.labels = np.where(known[:, None], LABELS, np.nan)
    experiment.check()
    set_model(experiment, HEAD)
    message = "--model head: y has too few .* of replicate 1; leave"
    with pytest.raises(DatasetError, match=message):
        experiment.check()


def test_limits_of_the_results(experiment, monkeypatch):
    (text,) = experiment.warnings()
    assert text == (
        "metrics of test say little, it has 2 molecules with a label; --folds K tests "
        "every molecule once"
    )
    for split, more in (("time:x", {}), ("", {"interval": "conformal"})):
        experiment.settings = Settings("a.csv", "out", split=split, **more)
        assert experiment.warnings() == [text.partition(";")[0]]
    monkeypatch.setattr(plan, "FEW_TESTED", 3)
    monkeypatch.setattr(plan, "MAX_ROWS", 9)
    experiment.settings = Settings("a.csv", "out", trials=2)
    # Test molecules of all runs count, each once; two runs may differ in their seeds.
    experiment.splits = [SPLIT, SPLIT]
    assert len(experiment.warnings()) == 1
    experiment.splits = [SPLIT, SPLIT | {"test": np.array([8, 9])}]
    (text,) = experiment.warnings()
    assert text.startswith("--trials searches on the first split, ")
    experiment.settings = Settings("a.csv", "out")
    assert experiment.warnings() == ["heads are fitted to 9 of 10 molecules"]
    experiment.splits, experiment.table.given_split = [SPLIT], SPLIT
    experiment.table.labels = np.where(np.arange(12) == 11, np.nan, LABELS.T).T
    text = "metrics of test say little, it has 1 molecule with a label"
    assert experiment.warnings()[1] == text


def test_weights_of_labels(experiment):
    """Those of molecules times those of classes, which the fitted rows give."""
    experiment.table.weights = None
    assert experiment.label_weights(np.arange(4)) is None
    experiment.table.labels = np.array([[0, 1.0], [0, 0], [0, np.nan], [1, 1]])
    experiment.table.targets = TargetSchema(["y", "z"], kind="binary")
    experiment.table.weights = np.array([1.0, 2, 3, 0])
    expected = np.array([[1, 1], [2, 2], [3, 3], [0, 0]])
    assert (experiment.label_weights(np.arange(4)) == expected).all()
    experiment.settings = Settings("a.csv", "out", class_weights="1,5")
    expected[0, 1] = 5
    found = experiment.label_weights(np.arange(4))
    known = ~np.isnan(experiment.table.labels)
    assert found[known] == pytest.approx(expected[known])
    experiment.table.weights = None
    experiment.settings = Settings("a.csv", "out", class_weights="balanced")
    found = experiment.label_weights(np.arange(4))
    assert found[3, 0] / found[0, 0] == pytest.approx(3)
    found = experiment.label_weights(np.array([0, 3]))
    assert found[3, 0] == pytest.approx(found[0, 0])


def test_the_forest_predicts_what_is_read(experiment, monkeypatch):
    """Test molecules alone, in their rows; the file of a forest is read again."""
    predicted = []
    predict = references.RandomForestRegressor.predict

    def counted(forest, table):
        predicted.append(table)
        return predict(forest, table)

    monkeypatch.setattr(references.RandomForestRegressor, "predict", counted)
    features = np.arange(24.0).reshape(12, 2)
    experiment.features = {"a": features}
    experiment.table.weights = None
    experiment.splits = [SPLIT | {"test": np.array([11, 3])}]
    for _ in range(2):
        found = forest(experiment, 0).values
        assert found.shape == (12, 1) and np.isfinite(found[[3, 11]]).all()
        assert np.isnan(np.delete(found, [3, 11])).all() and found[11] > found[3]
    (rows,) = predicted
    assert np.array_equal(rows, features[[11, 3]])
