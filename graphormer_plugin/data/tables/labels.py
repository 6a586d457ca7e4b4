"""Labels of a store and their weights: number format, and the targets that they make."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import Level, as_rows, is_missing
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.targets import TargetSchema, target_statistics


def as_float32(values: np.ndarray) -> np.ndarray:
    """float32 [G, C]; ValueError where a label is infinite, or does not fit, see
    `beyond_float32`."""
    values = as_rows(values)
    # Before the cast: a number that is too small would be 0 in float32.
    TargetSchema.of([f"target {n}" for n in range(values.shape[1])]).check(values)
    return values.astype(np.float32)


# Standard deviations of its target, and units, by which a stored label may be off. Energies of
# heavy atoms deviate by more than what is learned of them. Our choice.
LARGEST_ROUNDING = 1e-5
LARGEST_ERROR = 1e-4


def stored_labels(values: np.ndarray) -> np.ndarray:
    """Labels as a store has them: `as_float32`, or float64 if float32 would round a label
    by more than `LARGEST_ROUNDING` or `LARGEST_ERROR`."""
    single = as_float32(values)
    double = np.asarray(values, np.float64)
    for column, rounded in zip(double.T, single.T):
        present = column[~np.isnan(column)]
        off = np.abs(present - rounded[~np.isnan(column)]).max(initial=0)
        if len(present) and off > min(LARGEST_ROUNDING * present.std(), LARGEST_ERROR):
            return double
    return single


def checked_weights(values: Any, count: int) -> np.ndarray:
    """Weights of graphs or rows in the loss, float32 [count]; ValueError for others than finite
    numbers, 0 or more."""
    with np.errstate(over="ignore"):
        weights = np.asarray(values, np.float32)
    if weights.shape != (count,):
        shape = list(weights.shape)
        raise ValueError(f"weights have shape {shape}, expected [{count}]")
    invalid = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if invalid.size:
        weight = f"weight {invalid[0]} is {weights[invalid[0]]}"
        raise ValueError(f"{weight}, expected a finite number, 0 or more")
    return weights


def checked_bounds(bounds: Any, labels: np.ndarray) -> np.ndarray:
    """Bounds of labels [n, C], see `label_ends`, float32 in the same shape; ValueError for
    others, and for integers, which were signs in earlier versions."""
    bounds = np.asarray(bounds)
    valid = bounds.shape == labels.shape and bounds.dtype.kind == "f"
    if not valid or not ((bounds >= 0) | (bounds == -np.inf)).all():
        raise ValueError(
            f"bounds are {bounds.dtype} {list(bounds.shape)}, expected floats in the labels' "
            f"shape {list(labels.shape)}: inf, -inf or half widths of 0 or more"
        )
    return bounds.astype(np.float32)


def default_names(width: int) -> list[str]:
    """Names of target columns that have none: y, or y0, y1, ..."""
    return ["y"] if width == 1 else [f"y{index}" for index in range(width)]


def label_ends(labels: np.ndarray, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Low and high ends of labels.

    Args:
        bounds: how far the value may be from its label, in the same shape: inf for a label that
            it is above (>100), -inf below, half the width of an interval around the label
            (3.1-4.2), and 0 for an exact label.
    """
    low, high = (
        np.where(bounds == end, 0, np.abs(bounds)) for end in (np.inf, -np.inf)
    )
    return labels - low, labels + high


def labels_between(low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of `label_ends`. Ends that are not finite are open; NaN without another."""
    known = [np.isfinite(end) for end in (low, high)]
    cases = [np.logical_and(*known), *known]
    middles = np.select(cases, [(low + high) / 2, low, high], np.nan)
    return middles, np.select(cases, [(high - low) / 2, np.inf, -np.inf], 0)


def label_text(word: Callable[[float], str], label: float, bound: float) -> str:
    """A label as text, `word` of its numbers: 5.0, >5.0, <5.0 or 3.1-4.2."""
    if bound and math.isfinite(bound):
        return "-".join(word(float(f"{label + x:.12g}")) for x in (-bound, bound))
    sign = ">" if bound > 0 else "<" if bound < 0 else ""
    return "" if label != label else sign + word(label)


def exact_labels(labels: np.ndarray, bounds: np.ndarray | None) -> np.ndarray:
    """Labels with NaN in place of those whose bound, of the same shape, is not 0."""
    return labels if bounds is None else np.where(bounds == 0, labels, np.nan)


def describe_targets(
    values: np.ndarray,
    schema: TargetSchema,
    offset: np.ndarray,
    splits: Split,
    node_split: np.ndarray | None = None,
    bounds: np.ndarray | None = None,
) -> tuple[TargetSchema, int]:
    """The targets of a store, with the statistics of the exact labels in its training split,
    and the number of missing labels.

    Args:
        values: labels [rows of their level, C].
        schema: names, kind and level of the targets; with 0 classes, a multiclass target has
            the largest label + 1.
        offset: first label of each graph, [G + 1]; of graphs any offset of theirs.
        splits: graph ids by split name; without ``train``, the statistics are of all graphs.
        node_split: see `GraphChunk`; it gives the training nodes.
    """
    names = schema.names
    several = schema.level is not Level.GRAPH
    ends = np.asarray(offset)
    count = int(ends[-1]) if several else len(ends) - 1
    if values.shape != (count, len(names)):
        raise ValueError(
            f"labels of {', '.join(names)} have shape {list(values.shape)}, expected "
            f"[{count} {schema.level}s, {len(names)}]"
        )
    missing = is_missing(values)
    if several and missing.all():
        raise ValueError(f"no {schema.level} has a label")
    schema.check(values)
    schema.check_for_network()
    targets = schema.with_num_classes(values)
    if schema.is_number.any():
        rows = splits.get("train", np.arange(len(ends) - 1))
        if several:
            training = np.zeros(len(ends) - 1, dtype=bool)
            training[rows] = True
            training = np.repeat(training, np.diff(ends))
            rows = np.flatnonzero(training if node_split is None else node_split == 1)
        targets = targets.scaled(*target_statistics(exact_labels(values, bounds), rows))
    return targets, int(missing.sum())
