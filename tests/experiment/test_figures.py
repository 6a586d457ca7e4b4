"""Figures of an experiment."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from matplotlib import rc_context
from matplotlib.text import Text

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import figures
from graphormer_plugin.experiment.results import Run
from graphormer_plugin.heads.prediction import Prediction


def test_targets_with_a_metric_come_first():
    names = [f"y{number}" for number in range(9)]
    labels = np.zeros((4, 9))
    labels[0, [5, 8]] = 1
    table = SimpleNamespace(
        labels=labels, targets=TargetSchema(names, "", "binary"), weights=None
    )
    split = dict.fromkeys(("train", "test"), np.arange(4))
    run = Run(split, {"head": Prediction(labels)}, chosen="head")
    titles = [axis.get_title() for axis in figures.test_figure(table, [run]).axes]
    assert titles[:3] == ["y5: roc_auc 1.000", "y8: roc_auc 1.000", "y0: roc_auc -"]
    assert len(titles) == 6


def test_names_are_no_mathematics():
    """Matplotlib would refuse them when the figure is drawn."""
    split = dict.fromkeys(("train", "test"), np.arange(4))
    labels, drawn = np.array([[0.0], [1.0], [0.0], [1.0]]), []
    binary = TargetSchema([r"a $\foo$ b"], r"$\unit$", "binary")
    classes = TargetSchema([r"$\y$"], kind="multiclass", num_classes=2)
    classes = classes.with_classes([[r"$\no$", r"$\yes$"]])
    for targets, values in (
        (binary, labels),
        (TargetSchema([r"$\y$"], r"$\unit$"), labels),
        (classes, np.eye(2)[[0, 1, 0, 1]]),
    ):
        table = SimpleNamespace(labels=labels, targets=targets, weights=None)
        run = Run(split, {"head": Prediction(values, np.ones((4, 1)))}, chosen="head")
        for draw in (figures.test_figure, figures.spread_figure):
            if figure := draw(table, [run]):
                figure.savefig(io.BytesIO())
                names = [
                    text for text in figure.findobj(Text) if "$" in text.get_text()
                ]
                parsed = [text.get_parse_math() for text in names]
                drawn.append(bool(names) and not any(parsed))
    assert drawn == [True] * 5


def test_no_matplotlibrc_counts(monkeypatch):
    """It would be read from the current folder, too."""
    trainings = {"a": {("loss", "train"): {1.0: 2.0}}}
    schema = TargetSchema(["y"])
    table = SimpleNamespace(labels=np.zeros((4, 1)), targets=schema, weights=None)
    split = dict.fromkeys(("train", "test"), np.arange(4))
    run = Run(split, {"head": Prediction(np.ones((4, 1)))}, chosen="head")
    experiment = SimpleNamespace(
        table=table,
        folder=Path(),
        trainings=lambda: [SimpleNamespace(save_dir="a")],
    )
    monkeypatch.setattr(figures, "read_curves", lambda _: trainings["a"])
    expected = figures.figures(experiment, [run])
    assert {*expected} == {"parity", "curves"}
    values = {"text.usetex": True, "axes.grid": True, "savefig.facecolor": "red"}
    with rc_context(values):
        assert figures.figures(experiment, [run]) == expected
