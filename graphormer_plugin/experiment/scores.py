"""Metrics of predictions, and their table."""

import math
from collections.abc import Callable, Mapping, Sequence
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
        """Whether it has a value for labels [n, T], a mean over targets with a value."""
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
TWO_LABELS = ("roc_auc", "ap", "r2")  # metrics that need two different labels
# Of labels [n] and predictions [n], or probabilities of classes [n, classes].
FUNCTIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "rmse": lambda y, p: np.sqrt(np.square(p - y).mean()),
    "mae": lambda y, p: np.abs(p - y).mean(),
    "r2": r2_score,
    "roc_auc": lambda y, p: roc_auc(p[:, None], y[:, None]),
    "ap": lambda y, p: average_precision(p[:, None], y[:, None]),
    "accuracy": lambda y, p: np.mean((p > 0.5 if p.ndim == 1 else p.argmax(1)) == y),
    "balanced_accuracy": lambda y, p: recall_score(
        y, p.argmax(1), labels=np.unique(y), average="macro"
    ),
    "log_loss": lambda y, p: log_loss(y, p, labels=np.arange(p.shape[1])),
}


def score(name: str, predicted: np.ndarray, labels: np.ndarray) -> float:
    """A metric of a target; NaN if it is undefined.

    Args:
        name: Of `METRICS`.
        predicted: Values or probabilities [n]; probabilities of classes [n, classes].
        labels: [n], NaN where missing.
    """
    known = ~np.isnan(labels)
    predicted, labels = predicted[known].astype(np.float64), labels[known]
    if predicted.ndim == 2:
        labels = labels.astype(int)
    if len(np.unique(labels)) < (2 if name in TWO_LABELS else 1):
        return math.nan
    return float(FUNCTIONS[name](labels, predicted))


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
    """The main metric, a mean over the targets with a value."""
    name = MAIN[kind].name
    return mean_of_defined(
        [score(name, *pair) for pair in pairs(kind, predicted, labels)]
    )


def spread(values: Sequence[float], metric: str) -> str:
    """``mean ± standard deviation`` of a metric; a single value alone."""
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
