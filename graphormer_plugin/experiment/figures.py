"""Figures of an experiment: parity, ROC and learning curves."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import roc_curve

from graphormer_plugin.experiment.results import Run
from graphormer_plugin.experiment.scores import MAIN, score, spread
from graphormer_plugin.experiment.splits import scored_labels
from graphormer_plugin.experiment.table import Table
from graphormer_plugin.experiment.training import Curves
from graphormer_plugin.inference.calibration import (
    MOST_TARGETS,
    calibration_figure,
    panels,
)
from graphormer_plugin.inference.columns import class_labels

# Name of the figure of the test molecules.
TEST_FIGURES = {"regression": "parity", "binary": "roc", "multiclass": "confusion"}


@rc_context({"text.parse_math": False})  # a name may have a $
def test_figure(table: Table, runs: Sequence[Run]) -> Figure:
    """Predictions of the test molecules of all replicates: parity plots for numbers,
    ROC curves for classes, one panel for each of the first targets that have a metric.
    """
    if table.targets.kind == "multiclass":
        return confusion_figure(table, runs)
    draw = roc if table.targets.kind == "binary" else parity
    metric = MAIN[table.targets.kind].name
    found = []
    all_labels = [scored_labels(table, run.split, "test") for run in runs]
    for target, name in enumerate(table.targets.names):
        pairs = []
        for run, labels in zip(runs, all_labels, strict=True):
            known = ~np.isnan(labels[:, target])
            rows = run.split["test"][known]
            pairs.append((run.predicted.values[rows, target], labels[known, target]))
        found.append((name, pairs, [score(metric, *pair) for pair in pairs]))
    found.sort(key=lambda one: bool(np.isnan(one[2]).all()))  # keeps their order
    shown = found[:MOST_TARGETS]
    figure, axes = panels(len(shown))
    for (name, pairs, values), axis in zip(shown, axes, strict=True):
        axis.set_title(f"{name}: {metric} {spread(values, metric)}", fontsize=9)
        draw(axis, pairs, table.targets.unit)
    return figure


def confusion_figure(table: Table, runs: Sequence[Run]) -> Figure:
    """How often the molecules of each class are predicted as which class."""
    names = class_labels(table.targets)
    counts = np.zeros((len(names), len(names)), int)
    for run in runs:
        rows = run.split["test"]
        rows = rows[~np.isnan(table.labels[rows, 0])]
        best = run.predicted.values[rows].argmax(1)
        np.add.at(counts, (table.labels[rows, 0].astype(int), best), 1)
    figure, (axis,) = panels(1)
    axis.imshow(counts, cmap="Blues")
    for (measured, predicted), count in np.ndenumerate(counts):
        dark = count > counts.max() / 2
        axis.text(predicted, measured, count, ha="center", color="w" if dark else "k")
    places = range(len(names))
    axis.set_xticks(places, names, rotation=45, ha="right")
    axis.set_yticks(places, names)
    axis.set(xlabel="predicted", ylabel="measured", title=table.targets.names[0])
    return figure


def parity(
    axis: Axes, pairs: Sequence[tuple[np.ndarray, np.ndarray]], unit: str
) -> None:
    """Predicted against measured values."""
    for predicted, labels in pairs:
        axis.plot(labels, predicted, ".", markersize=4, alpha=0.6)
    low, high = _limits(pairs)
    axis.plot([low, high], [low, high], color="0.5", linewidth=0.8)
    unit = f" ({unit})" if unit else ""
    axis.set(xlabel=f"measured{unit}", ylabel=f"predicted{unit}", aspect="equal")


def _limits(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    values = np.concatenate([part for pair in pairs for part in pair])
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


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
    spreads = [run.std for run in runs]
    std = None
    if all(spread is not None for spread in spreads):
        std = np.concatenate([spread[at] for spread, at in zip(spreads, rows)])
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
        metric: That selects the checkpoint.

    Returns:
        None without a curve.
    """
    found = {name: curve for name, curve in curves.items() if "loss" in curve}
    if not found:
        return None
    figure, axes = panels(2 if metric != "loss" else 1)
    for number, curve in enumerate(found.values()):
        color = f"C{number % 10}"
        for split, style in (("train", ":"), ("valid", "-")):
            points = curve["loss"].get(split, [])
            label = split if number == 0 else None
            axes[0].plot(*_xy(points), style, color=color, linewidth=1, label=label)
        if metric != "loss":
            points = curve.get(metric, {}).get("valid", [])
            axes[1].plot(*_xy(points), color=color, linewidth=1)
    axes[0].set(xlabel="updates", ylabel="loss")
    axes[0].legend(frameon=False, fontsize=8)
    if metric != "loss":
        axes[1].set(xlabel="updates", ylabel=f"valid {metric}")
    return figure


def _xy(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
