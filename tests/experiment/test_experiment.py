"""The steps of an experiment, without trainings."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import run as running
from graphormer_plugin.experiment.plan import Experiment
from graphormer_plugin.experiment.settings import (
    FINETUNE,
    HEAD,
    MANY_MOLECULES,
    SCRATCH,
    Settings,
)
from graphormer_plugin.experiment.training import Start
from graphormer_plugin.inference.values import Prediction

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
        labels=LABELS, targets=TargetSchema(["y"]), smiles=["C"] * len(LABELS)
    )
    warnings = []
    result = Experiment(
        Settings("a.csv", str(tmp_path), epochs=3),
        table,
        [SPLIT],
        ["split1"],
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
    result.warnings = warnings
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
    """They count as the members of one ensemble."""
    experiment.settings = dataclasses.replace(experiment.settings, ensemble=2)
    experiment.errors[HEAD] = -0.44
    (run,) = running.do_runs(experiment)
    assert run.chosen == "head + fine-tuned" and run.calibrates
    assert run.predicted.values == pytest.approx(LABELS + 0.02)
    assert run.predicted.std == pytest.approx(np.full((12, 1), 0.69 / 3**0.5))
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


def test_a_head_that_cannot_be_fitted(experiment):
    experiment.errors[HEAD] = ValueError("target y has fewer than 2 different labels")
    (run,) = running.do_runs(experiment)
    assert run.chosen == "fine-tuned" and "head" not in run.predictions
    assert experiment.warnings == [
        "replicate 1 has no head: target y has fewer than 2 different labels"
    ]
    experiment.errors[FINETUNE] = ValueError("no memory")
    with pytest.raises(ValueError, match="no memory"):
        running.do_runs(experiment)
