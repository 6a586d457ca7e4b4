"""Metrics of predictions, and their table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np
from sklearn.metrics import log_loss, r2_score, recall_score

from graphormer_plugin.criterions.metrics import (
    average_precision,
    mean_of_defined,
    roc_auc,
)


@dataclass(frozen=True)
class Metric:
    """A metric by its name in the logs of fairseq.

    Attributes:
        name: Of the metric.
        rises: Larger is better.
    """

    name: str
    rises: bool

    def is_defined(self, labels: np.ndarray) -> bool:
        """Whether it has a value for labels [n, T]; a mean over targets that have one."""
        if self.name not in ("roc_auc", "ap"):
            return not np.isnan(labels).all()
        return any({0.0, 1.0} <= {*column.tolist()} for column in labels.T)

    def is_better(self, value: float, other: float) -> bool:
        """Whether a value is better than another; anything is better than NaN."""
        if math.isnan(value) or math.isnan(other):
            return not math.isnan(value)
        return value > other if self.rises else value < other


MAIN = {
    "regression": Metric("rmse", False),
    "binary": Metric("roc_auc", True),
    "multiclass": Metric("accuracy", True),
}
METRICS = {
    "regression": ("rmse", "mae", "r2"),
    "binary": ("roc_auc", "ap", "accuracy"),
    "multiclass": ("accuracy", "balanced_accuracy", "log_loss"),
}
IN_UNIT = ("rmse", "mae")  # of the target
SMALL = 0.01  # below it three decimals say too little


def score(name: str, predicted: np.ndarray, labels: np.ndarray) -> float:
    """A metric of one target; NaN if it is undefined.

    Args:
        name: Of `METRICS`.
        predicted: Values or probabilities [n]; probabilities of classes [n, classes].
        labels: [n], NaN where missing.
    """
    there = ~np.isnan(labels)
    predicted, labels = predicted[there], labels[there]
    if not len(labels):
        return math.nan
    if name in ("roc_auc", "ap"):
        if len(np.unique(labels)) < 2:
            return math.nan
        function = {"roc_auc": roc_auc, "ap": average_precision}[name]
        return function(predicted[:, None], labels[:, None])
    if predicted.ndim == 2:
        return _class_score(name, predicted, labels.astype(int))
    if name == "accuracy":
        return float(np.mean((predicted > 0.5) == (labels > 0.5)))
    if name == "r2":
        return float(r2_score(labels, predicted)) if np.ptp(labels) > 0 else math.nan
    error = predicted - labels
    if name == "mae":
        return float(np.abs(error).mean())
    return float(np.sqrt(np.square(error).mean()))


def _class_score(name: str, predicted: np.ndarray, labels: np.ndarray) -> float:
    """A metric of a multiclass target: the mean recall of its classes is the balanced
    accuracy."""
    if name == "log_loss":
        classes = np.arange(predicted.shape[1])
        return float(log_loss(labels, predicted.astype(np.float64), labels=classes))
    best = predicted.argmax(1)
    if name == "accuracy":
        return float(np.mean(best == labels))
    return float(recall_score(labels, best, labels=np.unique(labels), average="macro"))


def pairs(
    kind: str, predicted: np.ndarray, labels: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Predictions and labels [n] of each target; predictions of a multiclass target are
    [n, classes]."""
    if kind == "multiclass":
        return [(predicted, labels[:, 0])]
    return list(zip(predicted.T, labels.T, strict=True))


def scores(
    kind: str, predicted: np.ndarray, labels: np.ndarray
) -> dict[str, list[float]]:
    """Each metric of a kind of targets, for each target.

    Args:
        kind: Key of `METRICS`.
        predicted: [n, T], of a multiclass target [n, classes].
        labels: [n, T].
    """
    return {
        name: [score(name, *pair) for pair in pairs(kind, predicted, labels)]
        for name in METRICS[kind]
    }


def main_score(kind: str, predicted: np.ndarray, labels: np.ndarray) -> float:
    """The main metric, its mean over the targets that have one."""
    name = MAIN[kind].name
    return mean_of_defined(
        [score(name, *pair) for pair in pairs(kind, predicted, labels)]
    )


def spread(values: Sequence[float], metric: str) -> str:
    """``mean ± standard deviation`` of a metric; the mean alone of one value."""
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return "-"
    digits = ".3g" if metric in IN_UNIT and max(values) < SMALL else ".3f"
    if len(values) == 1:
        return f"{values[0]:{digits}}"
    return f"{mean(values):{digits}} ± {stdev(values):{digits}}"


def text_table(
    rows: Mapping[str, Mapping[str, Sequence[float]]], metrics: Sequence[str]
) -> str:
    """Models against metrics, aligned.

    Args:
        rows: Values of each run by metric, by model.
        metrics: Columns.
    """
    cells = [["", *metrics]]
    for model, values in rows.items():
        cells.append([model, *(spread(values[name], name) for name in metrics)])
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in cells
    )
