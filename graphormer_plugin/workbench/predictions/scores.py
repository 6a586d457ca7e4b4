"""Metrics of predictions, and their table."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, stdev

import numpy as np
from rdkit.ML.Scoring.Scoring import CalcBEDROC, CalcEnrichment
from scipy.stats import spearmanr
from sklearn import metrics as of_sklearn

from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.targets import Kind, TargetSchema, mean_of_defined

# For several regressions, whose units differ: RMSE over the standard deviation in train.
NRMSE = "nrmse"
COUNT = "n"  # the number of labels
IN_UNIT = ("rmse", "mae")  # metrics in the unit of the target
SMALL = 0.01  # a metric below it needs more than three decimals
# Metrics that need two labels, and those of classes, not of probabilities.
TWO_LABELS = ("roc_auc", "ap", "r2", "spearman", "mcc", "f1", "bedroc", "enrichment")
OF_CLASSES = ("accuracy", "balanced_accuracy", "mcc", "f1")
BEDROC_ALPHA = 20.0
ENRICHED = 0.01  # share of molecules whose enrichment counts


def _ranked(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Labels as RDKit takes them [n, 1], of the highest prediction first. Among equal ones
    class 0 is first: the order of rows gives no model an enrichment."""
    return labels[np.lexsort((labels, -predicted)), None]


# Functions of labels [n] and predictions [n], or probabilities of classes [n, classes].
FUNCTIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "rmse": of_sklearn.root_mean_squared_error,
    "mae": of_sklearn.mean_absolute_error,
    "r2": of_sklearn.r2_score,
    "spearman": lambda y, p: spearmanr(y, p).statistic if np.ptp(p) else math.nan,
    "roc_auc": of_sklearn.roc_auc_score,
    "ap": of_sklearn.average_precision_score,
    "accuracy": of_sklearn.accuracy_score,
    "balanced_accuracy": lambda y, p: of_sklearn.recall_score(
        y, p, labels=np.unique(y), average="macro"
    ),
    "mcc": of_sklearn.matthews_corrcoef,
    "f1": of_sklearn.f1_score,
    "bedroc": lambda y, p: CalcBEDROC(_ranked(y, p), 0, BEDROC_ALPHA),
    "enrichment": lambda y, p: CalcEnrichment(_ranked(y, p), 0, [ENRICHED])[0],
    "log_loss": lambda y, p: of_sklearn.log_loss(
        y, p / p.sum(axis=1, keepdims=True), labels=np.arange(p.shape[1])
    ),  # cells of a table are rounded
}


def main_metrics(targets: TargetSchema) -> dict[Kind, str]:
    """Metric that chooses epochs and models, for each kind of target. In `NRMSE` no target
    counts more because its numbers are larger."""
    metrics = {target.kind: target.kind.main_metric for target in targets.targets}
    if Kind.REGRESSION in metrics and len(targets.targets) > 1:
        metrics[Kind.REGRESSION] = NRMSE
    return metrics


def is_defined(metric: str, labels: np.ndarray) -> bool:
    """Whether a metric has a value for labels [n, T], a mean over targets with a value."""
    if metric not in ("roc_auc", "ap"):
        return not np.isnan(labels).all()
    return any({0.0, 1.0} <= {*column.tolist()} for column in labels.T)


def score(
    name: str, predicted: np.ndarray, labels: np.ndarray, cut_off: float = 0.5
) -> float:
    """A metric of a target; NaN if it is undefined.

    Args:
        predicted: values or probabilities [n]; probabilities of classes [n, classes].
        cut_off: probability above which class 1 is predicted.
    """
    is_labelled = ~np.isnan(labels)
    predicted = predicted[is_labelled].astype(np.float64)
    labels = labels[is_labelled]
    if predicted.ndim == 2:
        labels = labels.astype(int)
    least = 2 if name in TWO_LABELS else 1
    if len(np.unique(labels)) < least or not np.isfinite(predicted).all():
        return math.nan
    if name in OF_CLASSES:
        several = predicted.ndim > 1
        predicted = predicted.argmax(1) if several else predicted > cut_off
    return float(FUNCTIONS[name](labels, predicted))


def scores(
    targets: TargetSchema, predicted: np.ndarray, labels: np.ndarray, spread: np.ndarray
) -> dict[str, list[float]]:
    """Metrics by name, with a value for each target, NaN where its kind has another. Several
    targets with a regression among them have `NRMSE` as well.

    Args:
        spread: standard deviation of each target in train [T].
    """
    main = main_metrics(targets)
    names = dict.fromkeys(name for kind in main for name in kind.metrics)
    by_metric = {name: [math.nan] * len(targets.targets) for name in names}
    for index, (target, outputs) in enumerate(zip(targets.targets, targets.outputs)):
        values = predicted[:, outputs]
        if target.kind.has_one_output:
            values = values[:, 0]
        for name in target.kind.metrics:
            by_metric[name][index] = score(
                name, values, labels[:, index], target.cut_off
            )
    if NRMSE in main.values():
        by_metric[NRMSE] = (np.array(by_metric["rmse"]) / spread).tolist()
    return by_metric


def spread_text(values: Sequence[float], metric: str) -> str:
    """``mean ± standard deviation`` of a metric; a single value alone."""
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return "-"
    if metric == COUNT:
        return f"{mean(values):.0f}"
    digits = ".3g" if metric in IN_UNIT and max(values) < SMALL else ".3f"
    if len(values) == 1:
        return f"{values[0]:{digits}}"
    return f"{mean(values):{digits}} ± {stdev(values):{digits}}"


def metric_cells(
    rows: Mapping[str, Mapping[str, Sequence[float]]], metrics: Sequence[str]
) -> list[list[str]]:
    """Rows of a table of models that are compared: the name of each, and its metrics, with
    a star behind the best; ``rows`` has the value of each run by metric, by model."""
    means = {
        name: [mean_of_defined(values.get(name, ())) for values in rows.values()]
        for name in metrics
    }
    best = {
        name: (np.nanmax if name in RISING else np.nanmin)(values)
        for name, values in means.items()
        if name != COUNT and np.isfinite(values).sum() > 1
    }
    table = []
    for index, (model, of) in enumerate(rows.items()):
        texts = [
            spread_text(of.get(name, ()), name)
            + "*" * bool(means[name][index] == best.get(name))
            for name in metrics
        ]
        table.append([model, *texts])
    return table


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
