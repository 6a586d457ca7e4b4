"""The steps of an experiment, without trainings."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import plan, references, steps
from graphormer_plugin.experiment import run as running
from graphormer_plugin.experiment.plan import Experiment
from graphormer_plugin.experiment.results import Run, read_arrays, save_arrays
from graphormer_plugin.experiment.settings import (
    FINETUNE,
    HEAD,
    MANY_MOLECULES,
    SCRATCH,
    Settings,
)
from graphormer_plugin.experiment.training import Start
from graphormer_plugin.inference.values import Prediction, SpreadScale

LABELS = np.arange(12.0)[:, None]
SPLIT = {
    "train": np.arange(8),
    "valid": np.array([8, 9]),
    "test": np.array([10, 11]),
}


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Its models predict the labels plus an error of their own."""
    table = SimpleNamespace(
        labels=LABELS,
        targets=TargetSchema(["y"]),
        smiles=["C"] * len(LABELS),
        given_split=None,
        weights=None,
    )
    warnings = []
    result = Experiment(
        Settings("a.csv", str(tmp_path), epochs=3),
        table,
        [SPLIT],
        [("molecules.csv", "split1")],
        Start((), tmp_path / "start.pt", "grpe_tiny", 4),
        warnings.append,
        bar=SimpleNamespace(total=0),
    )
    result.errors = {HEAD: 0.5, FINETUNE: 0.25}

    def predictions(experiment, run, model, member):
        if isinstance(result.errors[model], Exception):
            raise result.errors[model]
        return Prediction(LABELS + result.errors[model])

    monkeypatch.setattr(running, "model_predictions", predictions)
    monkeypatch.setattr(running, "forest", lambda *_: Prediction(LABELS))
    result.warned = warnings
    return result


def test_the_better_model_by_validation(experiment):
    (run,) = running.do_runs(experiment)
    assert run.chosen == "head + fine-tuned" and run.calibrates
    assert run.checkpoints == [
        "replicate1/head1/checkpoint_best.pt",
        "replicate1/finetune1/checkpoint_best.pt",
    ]
    assert run.reason == (
        "head + fine-tuned, valid rmse 0.375 (head: 0.500, fine-tuned: 0.250)"
    )
    assert run.predictions["mean"].values[0] == pytest.approx(LABELS[:10].mean())
    experiment.errors[HEAD] = 0.1
    (run,) = running.do_runs(experiment)
    assert run.chosen == "head" and not run.calibrates


def test_head_and_training_together(experiment):
    """A head counts as much as all trainings together."""
    experiment.settings = dataclasses.replace(experiment.settings, ensemble=2)
    experiment.errors[HEAD] = -0.44
    (run,) = running.do_runs(experiment)
    assert run.chosen == "head + fine-tuned" and run.calibrates
    assert run.predicted.values == pytest.approx(LABELS - 0.095)
    std = 0.345 / (1 - 0.5**2 - 2 * 0.25**2) ** 0.5
    assert run.predicted.std == pytest.approx(np.full((12, 1), std))
    assert run.weights == [0.5, 0.25, 0.25]
    assert run.checkpoints == [
        f"replicate1/{name}/checkpoint_best.pt"
        for name in ("head1", "finetune1", "finetune2")
    ]


def test_what_auto_makes(experiment):
    """A head; both with options of a training, for many molecules, or where no head can
    be fitted."""
    assert experiment.models == [HEAD, FINETUNE]
    experiment.settings = Settings("a.csv", "out")
    assert experiment.models == [HEAD]
    for name, value in {
        "ensemble": 2,
        "descriptors": True,
        "trials": 1,
        "lr": 1.0,
    }.items():
        assert Settings("a.csv", "out", **{name: value}).training_flags == [f"--{name}"]
    many = np.arange(MANY_MOLECULES) % 8
    experiment.splits = [SPLIT, SPLIT | {"train": many[1:]}]
    assert experiment.models == [HEAD]
    experiment.splits = [SPLIT, SPLIT | {"train": many}]
    assert experiment.models == [HEAD, FINETUNE]
    experiment.splits = [SPLIT]
    experiment.table.labels = np.ones((12, 1))
    del experiment.heads_fit
    assert experiment.models == [HEAD, FINETUNE]
    experiment.start = None
    assert experiment.models == [SCRATCH]


def test_a_target_that_cannot_be_named_alone(experiment):
    experiment.table.targets = TargetSchema(["1,2-a"])
    experiment.table.extra_names = ["1,3-a"]
    assert "--target-columns=1?2-a" in experiment.line(0, SCRATCH, 0)
    experiment.settings = Settings("a.csv", "out", model=SCRATCH)
    experiment.check_names()
    experiment.table.extra_names = ["1.2-a"]
    with pytest.raises(DatasetError, match="columns 1,2-a, 1.2-a, .* rename '1,2-a'"):
        experiment.check_names()
    experiment.settings = Settings("a.csv", "out", model=HEAD)
    experiment.check_names()


@pytest.mark.parametrize(
    "flag, settings, targets, start",
    [
        ("--target-columns", {}, {"names": ["cost ${x}"]}, "start.pt"),
        ("--target-unit", {}, {"names": ["y"], "unit": "a\\"}, "start.pt"),
        ("--weight-column", {"weight_column": "a\\'b"}, {"names": ["y"]}, "start.pt"),
        ("--extra-columns", {"extra_columns": ["${x}"]}, {"names": ["y"]}, "start.pt"),
        ("--start", {}, {"names": ["y"]}, "${x}.pt"),
    ],
)
def test_a_name_that_fairseq_misreads(experiment, flag, settings, targets, start):
    experiment.table.targets = TargetSchema(**targets)
    experiment.table.extra_names = []
    experiment.start = dataclasses.replace(experiment.start, path=Path(start))
    experiment.settings = Settings("a.csv", "out", model=FINETUNE, **settings)
    with pytest.raises(ValueError, match=f"{flag} .*: expected no ") as error:
        experiment.check_names()
    assert "rename it" in str(error.value)
    experiment.settings = Settings("a.csv", "out", model=HEAD)
    experiment.check_names()


def test_each_run_is_calibrated_by_its_own_molecules(experiment, monkeypatch):
    """A test molecule may be one that another run is validated on."""
    other = {"train": SPLIT["train"], "valid": SPLIT["test"], "test": SPLIT["valid"]}
    runs = [Run(split, chosen="model", calibrates=True) for split in (SPLIT, other)]
    for run in runs:
        run.predictions["model"] = Prediction(LABELS, np.ones(LABELS.shape))
    seen = []

    def calibration(table, runs):
        seen.append([run.split for run in runs])
        return SpreadScale(np.full(1, float(len(seen))), np.zeros(1))

    monkeypatch.setattr(running, "calibration", calibration)
    running.calibrate(experiment.table, runs)
    assert seen == [[SPLIT], [other]]
    assert [run.std[0, 0] for run in runs] == [1, 2]


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "features.npz"
    save_arrays(path, {"a": np.arange(1000.0)})
    assert np.array_equal(read_arrays(path)["a"], np.arange(1000))
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(DatasetError, match="features.npz is damaged; remove it"):
            read_arrays(path)
    (tmp_path / "data").mkdir()
    for text in ("", '["a", "b', "[]", "{}", "3"):
        (tmp_path / running.FINISHED_FILE).write_text(text)
        assert not running.is_finished(tmp_path)


def test_heads_alone_need_labels(experiment):
    experiment.table.labels = np.where(np.arange(12) < 8, np.nan, LABELS[:, 0])[:, None]
    experiment.check_heads()
    experiment.settings = Settings("a.csv", "out", model=HEAD)
    with pytest.raises(
        DatasetError, match="head: y has too few .* of replicate 1; leav"
    ):
        experiment.check_heads()


def test_labels_of_weight_0_do_not_fit_heads(experiment):
    assert experiment.heads_fit
    del experiment.heads_fit
    experiment.table.weights = (np.arange(len(LABELS)) == 0).astype(float)
    assert not experiment.heads_fit
    experiment.settings = Settings("a.csv", "out", model=HEAD)
    with pytest.raises(DatasetError, match="y has too few different labels in train"):
        experiment.check_heads()


def test_what_flatters_or_misses_something(experiment, monkeypatch):
    monkeypatch.setattr(plan, "FEW_TESTED", 1)
    assert experiment.warnings() == []
    monkeypatch.setattr(plan, "MAX_ROWS", 9)
    experiment.settings = Settings("a.csv", "out", trials=2)
    assert experiment.warnings() == ["heads are fitted to 9 of 10 molecules"]
    experiment.splits = [SPLIT, SPLIT]  # with two seeds of the models
    assert len(experiment.warnings()) == 1
    experiment.splits = [SPLIT, SPLIT | {"test": np.array([8])}]
    assert experiment.warnings()[1].startswith("--trials searches on the first split, ")
    experiment.start = None
    assert [text[:12] for text in experiment.warnings()] == [
        "no pre-train",
        "--trials sea",
    ]


def test_few_test_molecules(experiment, monkeypatch):
    (text,) = experiment.warnings()
    assert text == (
        "metrics of test say little, it has 2 molecules with a label; --folds K tests "
        "every molecule once"
    )
    experiment.table.given_split = SPLIT
    experiment.table.labels = np.where(np.arange(12) == 11, np.nan, LABELS[:, 0])[
        :, None
    ]
    assert experiment.warnings() == [
        "metrics of test say little, it has 1 molecule with a label"
    ]
    # Those of all runs count, each once.
    monkeypatch.setattr(plan, "FEW_TESTED", 3)
    experiment.splits = [SPLIT, SPLIT | {"test": np.array([8, 9])}]
    assert experiment.warnings() == []


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


def test_a_head_that_cannot_be_fitted(experiment):
    experiment.errors[HEAD] = ValueError("target y has fewer than 2 different labels")
    (run,) = running.do_runs(experiment)
    assert run.chosen == "fine-tuned" and "head" not in run.predictions
    assert experiment.warned == [
        "replicate 1 has no head: target y has fewer than 2 different labels"
    ]
    experiment.errors[HEAD] = MemoryError()
    (run,) = running.do_runs(experiment)
    assert run.chosen == "fine-tuned"
    assert experiment.warned[1] == "replicate 1 has no head: not enough memory"
    experiment.errors[FINETUNE] = ValueError("no data")
    with pytest.raises(ValueError, match="no data"):
        running.do_runs(experiment)


def test_the_forest_predicts_what_is_read(experiment, monkeypatch):
    """Test molecules alone, in their rows; the file of a forest is read again."""
    predicted = []
    predict = references.RandomForestRegressor.predict

    def counted(forest, table):
        predicted.append(table)
        return predict(forest, table)

    monkeypatch.setattr(references.RandomForestRegressor, "predict", counted)
    features = np.arange(24.0).reshape(12, 2)
    monkeypatch.setattr(plan.Experiment, "features", lambda _: {"a": features})
    experiment.table.weights = None
    experiment.splits = [SPLIT | {"test": np.array([11, 3])}]
    experiment.bar.set_description = experiment.bar.update = lambda _: None
    for _ in range(2):
        found = steps.forest(experiment, 0).values
        assert found.shape == (12, 1) and np.isfinite(found[[3, 11]]).all()
        assert np.isnan(np.delete(found, [3, 11])).all() and found[11] > found[3]
    (rows,) = predicted
    assert np.array_equal(rows, features[[11, 3]])
