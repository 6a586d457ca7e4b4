"""Figures of an experiment: parity, ROC and learning curves."""

import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import ConfusionMatrixDisplay, roc_curve

from graphormer_plugin.experiment.labelled_table import Table
from graphormer_plugin.experiment.plan import Experiment
from graphormer_plugin.experiment.results import Run
from graphormer_plugin.experiment.scores import MAIN, main_metric, score, spread_text
from graphormer_plugin.experiment.split_tables import scored_labels
from graphormer_plugin.experiment.training import LOG_FILE, Curves, read_curves
from graphormer_plugin.heads.calibration import (
    MOST_TARGETS,
    calibration_figure,
    panels,
)
from graphormer_plugin.heads.figure_style import FIGURE_STYLE
from graphormer_plugin.inference.prediction_columns import class_labels

# File and title of the figure of the test molecules.
TEST_FIGURES = {
    "regression": ("parity", "Parity"),
    "binary": ("roc", "ROC curves"),
    "multiclass": ("confusion", "Confusion of classes"),
}


@rc_context(FIGURE_STYLE)
def figures(
    experiment: Experiment, runs: Sequence[Run]
) -> dict[str, tuple[str, bytes]]:
    """Title and PNG file of each figure, by the name of its file."""
    table, folder = experiment.table, experiment.folder
    kind = table.targets.kind
    name, title = TEST_FIGURES[kind]
    curves = {
        member.save_dir: read_curves(folder / member.save_dir / LOG_FILE)
        for member in experiment.trainings()
    }
    drawn = {
        name: (title, test_figure(table, runs)),
        "calibration": ("Calibration", spread_figure(table, runs)),
        "curves": (
            "Learning curves",
            curves_figure(curves, main_metric(table.targets).name),
        ),
    }
    pictures = {}
    for name, (title, figure) in drawn.items():
        if figure is not None:
            buffer = io.BytesIO()
            figure.savefig(buffer, dpi=120, format="png")
            pictures[name] = title, buffer.getvalue()
    return pictures


@rc_context(FIGURE_STYLE)
def test_figure(table: Table, runs: Sequence[Run]) -> Figure:
    """Predictions of the test molecules of all replicates: parity plots for numbers,
    ROC curves for classes, a panel for each of the first targets that have a metric.
    """
    if table.targets.kind == "multiclass":
        return confusion_figure(table, runs)
    draw = roc if table.targets.kind == "binary" else parity
    metric = MAIN[table.targets.kind].name
    plots = []
    for target, name in enumerate(table.targets.names):
        pairs = []
        for run in runs:
            labels = scored_labels(table, run.split, "test")[:, target]
            known = ~np.isnan(labels)
            values = run.predicted.values[run.split["test"][known], target]
            pairs.append((values, labels[known]))
        plots.append((name, pairs, [score(metric, *pair) for pair in pairs]))
    plots.sort(key=lambda plot: bool(np.isnan(plot[2]).all()))  # keeps their order
    plots = plots[:MOST_TARGETS]
    figure, axes = panels(len(plots))
    for (name, pairs, values), axis in zip(plots, axes, strict=True):
        axis.set_title(f"{name}: {metric} {spread_text(values, metric)}", fontsize=9)
        draw(axis, pairs, table.targets.unit)
    return figure


def confusion_figure(table: Table, runs: Sequence[Run]) -> Figure:
    """Number of molecules of each class that are predicted as each class."""
    names = class_labels(table.targets)
    counts = np.zeros((len(names), len(names)), int)
    for run in runs:
        labels = scored_labels(table, run.split, "test")[:, 0]
        rows, known = run.split["test"], ~np.isnan(labels)
        best = run.predicted.values[rows[known]].argmax(1)
        np.add.at(counts, (labels[known].astype(int), best), 1)
    figure, (axis,) = panels(1)
    display = ConfusionMatrixDisplay(counts, display_labels=names)
    display.plot(ax=axis, cmap="Blues", colorbar=False, xticks_rotation=45)
    axis.set(xlabel="predicted", ylabel="measured", title=table.targets.names[0])
    return figure


def parity(
    axis: Axes, pairs: Sequence[tuple[np.ndarray, np.ndarray]], unit: str
) -> None:
    """Predicted against measured values."""
    for predicted, labels in pairs:
        axis.plot(labels, predicted, ".", markersize=4, alpha=0.6)
    values = np.concatenate([part for pair in pairs for part in pair])
    ends = [values.min(), values.max()] if len(values) else [0, 1]
    axis.plot(ends, ends, color="0.5", linewidth=0.8)
    unit = f" ({unit})" if unit else ""
    axis.set(xlabel=f"measured{unit}", ylabel=f"predicted{unit}", aspect="equal")


def roc(axis: Axes, pairs: Sequence[tuple[np.ndarray, np.ndarray]], unit: str) -> None:
    """True against false positive rate."""
    for predicted, labels in pairs:
        if len(np.unique(labels)) == 2:
            false, true, _ = roc_curve(labels, predicted)
            axis.plot(false, true, linewidth=1)
    axis.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
    axis.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")


def spread_figure(table: Table, runs: Sequence[Run]) -> Figure | None:
    """Calibration of the spreads or probabilities of the test molecules; None for more
    than two classes."""
    if table.targets.kind == "multiclass":
        return None
    rows = [run.split["test"] for run in runs]
    std = None
    if all(run.std is not None for run in runs):
        std = np.concatenate([run.std[at] for run, at in zip(runs, rows)])
    return calibration_figure(
        np.concatenate([run.predicted.values[at] for run, at in zip(runs, rows)]),
        std,
        np.concatenate([scored_labels(table, run.split, "test") for run in runs]),
        table.targets,
    )


def curves_figure(curves: Mapping[str, Curves], metric: str) -> Figure | None:
    """Learning curves: loss in training and validation, and the validation metric.

    Args:
        curves: By the name of the training.
        metric: Name of the metric that selects the checkpoint.

    Returns:
        None without a curve.
    """
    trainings = [curve for curve in curves.values() if ("loss", "train") in curve]
    if not trainings:
        return None
    lines = [(0, "loss", "train", ":"), (0, "loss", "valid", "-")]
    lines += [(1, metric, "valid", "-")] if metric != "loss" else []
    figure, axes = panels(lines[-1][0] + 1)
    for number, curve in enumerate(trainings):
        for panel, name, split, style in lines:
            points = curve.get((name, split), {})
            axes[panel].plot(
                *([*points], [*points.values()], style),
                color=f"C{number % 10}",
                linewidth=1,
                label=split if number == 0 else None,
            )
    axes[0].set(xlabel="updates", ylabel="loss")
    axes[0].legend(frameon=False, fontsize=8)
    if metric != "loss":
        axes[1].set(xlabel="updates", ylabel=f"valid {metric}")
    return figure
