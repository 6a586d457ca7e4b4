"""Figures of an experiment."""

import io
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.text import Text

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import figures
from graphormer_plugin.experiment.results import Run
from graphormer_plugin.experiment.worst import Worst
from graphormer_plugin.heads.figure_style import figure_style
from graphormer_plugin.heads.prediction import Prediction
from support.labelled_molecules import FewLabels


def test_targets_with_a_metric_come_first():
    names = [f"y{number}" for number in range(9)]
    labels = np.zeros((4, 9))
    labels[0, [5, 8]] = 1
    table = FewLabels(labels=labels, targets=TargetSchema(names, "", "binary"))
    split = dict.fromkeys(("train", "test"), np.arange(4))
    run = Run(split, {"head": Prediction(labels)}, chosen="head")
    figure = figures.panel_figure(table, [run], figures.roc)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:3] == ["y5: roc_auc 1.000", "y8: roc_auc 1.000", "y0: roc_auc -"]
    assert len(titles) == 6


def test_axes_have_the_unit_of_their_target():
    targets = TargetSchema(["log10 y", "z"], "M")
    table = FewLabels(labels=np.eye(4)[:, :2], targets=targets)
    split = dict.fromkeys(("train", "test"), np.arange(4))
    run = Run(split, {"head": Prediction(table.labels)}, chosen="head")
    figure = figures.panel_figure(table, [run], figures.parity)
    labels = [axis.get_xlabel() for axis in figure.axes]
    assert labels == ["measured (log10(M))", "measured (M)"]


@pytest.mark.filterwarnings("error:Glyph")
def test_names_are_no_mathematics():
    """Matplotlib would refuse them when the figure is drawn, and warn of letters that its
    font lacks."""
    split = dict.fromkeys(("train", "test"), np.arange(4))
    labels, drawn = np.array([[0.0], [1.0], [0.0], [1.0]]), []
    binary = TargetSchema(["a $\\foo$ b\33"], r"$\unit$", "binary")
    classes = TargetSchema([r"$\y$"], kind="multiclass", num_classes=2)
    classes = classes.with_classes([[r"$\no$", r"$\yes$"]])
    for targets, values in (
        (binary, labels),
        (TargetSchema([r"$\y$"], r"$\unit$"), labels),
        (classes, np.eye(2)[[0, 1, 0, 1]]),
    ):
        table = FewLabels(labels=labels, targets=targets)
        run = Run(split, {"head": Prediction(values, np.ones((4, 1)))}, chosen="head")
        drawn_by = [figures.confusion_figure, figures.spread_figure]
        drawn_by += [
            partial(figures.panel_figure, draw=draw)
            for _, draw in figures.PANELS[targets.kind].values()
        ]
        for draw in drawn_by:
            with figure_style():
                if figure := draw(table, [run]):
                    figure.savefig(io.BytesIO())
            if figure:
                names = [
                    text for text in figure.findobj(Text) if "$" in text.get_text()
                ]
                parsed = [text.get_parse_math() for text in names]
                drawn.append(bool(names) and not any(parsed))
    assert drawn == [True] * 6


def test_no_matplotlibrc_counts(tmp_path):
    """It would be read from the current folder, too."""
    log = tmp_path / "a/train.log"
    log.parent.mkdir()
    log.write_text(
        'INFO | train | {"epoch": 1, "train_loss": "2", "train_num_updates": "1"}\n'
    )
    schema = TargetSchema(["y"])
    table = FewLabels(labels=np.zeros((4, 1)), targets=schema)
    split = dict.fromkeys(("train", "test"), np.arange(4))
    run = Run(split, {"head": Prediction(np.ones((4, 1)))}, chosen="head")
    experiment = SimpleNamespace(
        table=table, folder=tmp_path, trainings=lambda: [SimpleNamespace(save_dir="a")]
    )
    expected = figures.figures(experiment, [run])
    assert {*expected} == {"parity", "curves"}
    values = {"text.usetex": True, "axes.grid": True, "savefig.facecolor": "red"}
    with rc_context(values):
        assert figures.figures(experiment, [run]) == expected


def test_errors_and_the_worst_in_them():
    """Against what the model says of itself; the worst have their numbers, in the colour
    of no run."""
    labels = np.arange(8.0)[:, None]
    table = FewLabels(labels=labels, targets=TargetSchema(["y"], "eV"))
    split = {"train": np.arange(4), "test": np.array([7, 4, 5])}
    values = labels + np.array([0, 0, 0, 0, 1, -2, 0, 3.0])[:, None]
    found = Prediction(values, np.arange(8.0)[:, None] / 10, np.arange(8) / 8)
    run = Run(split, {"head": found}, chosen="head")
    worst = [Worst(0, 7, 0, 3.0), Worst(1, 4, 0, 2.0)]
    places = {
        "parity": [(7, 10), (4, 5), (5, 3)],
        "residuals": [(7 / 8, 3), (4 / 8, 1), (5 / 8, -2)],
        "errors": [(0.7, 3), (0.4, 1), (0.5, 2)],
    }
    for name, (_, draw) in figures.PANELS["regression"].items():
        (axis,) = figures.panel_figure(table, [run], draw, worst).axes
        drawn, ring, *_ = axis.lines
        assert [*zip(*drawn.get_data())] == [
            tuple(map(pytest.approx, place)) for place in places[name]
        ]
        assert [text.get_text() for text in axis.texts] == ["1"]
        assert ring.get_data() == tuple([pytest.approx(x)] for x in places[name][0])
        assert "eV" in axis.get_ylabel()
    line = axis.lines[-1].get_data()
    assert line[1][1] / line[0][1] == pytest.approx(1.645, abs=1e-3)
    alone = Run(split, {"alone": Prediction(values)}, chosen="alone")
    for draw in (figures.residuals, figures.errors):  # nothing is known of it
        assert figures.panel_figure(table, [alone], draw) is None
