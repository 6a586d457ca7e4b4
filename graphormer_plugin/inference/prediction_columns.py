"""Columns of predictions in every table that is written: their kinds, order and cells."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.estimators.prediction import (
    IN_DOMAIN,
    QUANTILE,
    Interval,
    ends_of_interval,
)


class OutputColumn(NamedTuple):
    """A column of a table, with the text of each row, empty where there is no value."""

    name: str
    cells: list[str]
    is_number: bool = True  # not names of classes


class Layout(NamedTuple):
    """Names and order of the columns in a kind of file."""

    value: str  # ending of the name of a predicted value, or of the most probable class
    probability: str  # text between the names of a target and of a class
    order: Sequence[Sequence[str]]  # groups of kinds, which alternate target by target


# graphormer-predict: a new table has no measured values, so predictions have their names.
PREDICTED = Layout(
    "",
    "_probability_",
    [("value", "std"), ("low", "high"), ("probability",), ("in_domain",), ("class",)],
)
# fairseq-validate: the measured value is ``<target>_target``. Files that were written and
# programs that read them have these names, and ``<target>_0`` for a class.
VALIDATED = Layout("", "_", [("value",), ("label",), ("probability",), ("class",)])


def prediction_columns(
    targets: TargetSchema,
    values: NDArray,
    std: NDArray | None = None,
    in_domain: NDArray | None = None,
    labels: NDArray | None = None,
    layout: Layout = PREDICTED,
    logs: Sequence[int] = (),
    interval: Interval | None = None,
) -> list[OutputColumn]:
    """Columns of predictions.

    A regression target has a number, and a binary target the probability of class 1 and the
    more probable class, if it has a name. A multiclass target has the most probable class,
    its standard deviation, and the probability of each class.

    Args:
        values: [n, T] in the targets' unit or probabilities; [n, classes] of a
            multiclass target.
        in_domain: likeness to the training molecules [n], or [n, T] in a column for each
            target, see `Domain`.
        labels: measured values [n, T], NaN where missing; -1 for a class of a node.
        logs: targets of `from_log`, whose 90 % interval is in two more columns.
        interval: intervals of all targets, in two more columns each.
    """
    names = targets.names
    spreads = targets.std or [0.0] * len(names)
    if logs:  # their digits follow from their relative error
        spreads = [0.0 if index in logs else x for index, x in enumerate(spreads)]

    def _numbers(
        ending: str, of_targets: NDArray, *spreads: float
    ) -> list[OutputColumn]:
        return [
            OutputColumn(name + ending, number_cells(column, spread))
            for name, column, spread in itertools.zip_longest(
                names, of_targets.T, spreads, fillvalue=0.0
            )
        ]

    columns: dict[str, list[OutputColumn]]  # a column of each target, by kind
    if targets.kind == "multiclass":
        columns = _multiclass_columns(targets, values, layout)
        if std is not None:
            std = np.take_along_axis(std, values.argmax(1)[:, None], 1)
    else:
        columns = {"value": _numbers(layout.value, values, *spreads)}
        columns["class"] = [
            OutputColumn(f"{name}_class", [words[int(p > 0.5)] for p in column], False)
            for target, (name, column) in enumerate(zip(names, values.T))
            if (words := targets.classes_of(target))
        ]
    if std is not None:
        columns["std"] = _numbers("_std", std)
    if interval is not None or std is not None:
        ends = _interval_columns(names, values, std, spreads, logs, interval)
        columns |= {"low": ends[::2], "high": ends[1::2]}
    if labels is not None:
        columns["label"] = [
            OutputColumn(f"{name}_target", label_cells(column, targets, target))
            for target, (name, column) in enumerate(zip(names, labels.T, strict=True))
        ]
    if in_domain is not None and in_domain.ndim > 1:
        columns["in_domain"] = _numbers(f"_{IN_DOMAIN}", in_domain)
    elif in_domain is not None:
        columns["in_domain"] = [OutputColumn(IN_DOMAIN, number_cells(in_domain))]
    return [
        column
        for group in layout.order
        for of_target in zip(*(columns[kind] for kind in group if kind in columns))
        for column in of_target
    ]


def _multiclass_columns(
    targets: TargetSchema, values: NDArray, layout: Layout
) -> dict[str, list[OutputColumn]]:
    """The most probable class, and the probability of each class."""
    name = targets.names[0]
    classes = class_labels(targets)
    likeliest = [classes[number] for number in values.argmax(1)]
    is_number = not targets.classes_of(0)
    return {
        "value": [OutputColumn(name + layout.value, likeliest, is_number)],
        "probability": [
            OutputColumn(f"{name}{layout.probability}{label}", number_cells(column))
            for label, column in zip(classes, values.T, strict=True)
        ],
    }


def _interval_columns(
    names: Sequence[str],
    values: NDArray,
    std: NDArray | None,
    spreads: Sequence[float],
    logs: Sequence[int],
    interval: Interval | None,
) -> list[OutputColumn]:
    """Lower and upper end of each interval: conformal, or of 90 % for logarithms."""
    factors = dict.fromkeys(logs, QUANTILE)
    share = 0.9
    if interval is not None:
        factors = dict(enumerate(interval.factor.tolist()))
        share = interval.coverage
    columns = []
    for index, factor in factors.items():
        spread = None if std is None else std[:, index]
        ends = ends_of_interval(values[:, index], spread, factor, index in logs)
        for kind, end in zip(("low", "high"), ends, strict=True):
            cells = number_cells(end, spreads[index])
            columns.append(OutputColumn(f"{names[index]}_{kind}{100 * share:g}", cells))
    return columns


def format_value(
    value: float, spread: float = 0.0, digits: int = 7, of_spread: int = 8
) -> str:
    """A number as text, with at least ``digits``.

    If ``spread``, the standard deviation of its target, is known, the float32 of the
    standardised value is read back from the text, however large the value is. A number as
    large as ``spread`` has ``of_spread`` digits.

    >>> format_value(1 / 3), format_value(2.0), format_value(1e7 + 1 / 3, spread=1.5)
    ('0.3333333', '2', '10000000.3333333')
    """
    if spread and value:
        size = math.floor(math.log10(abs(value))) - math.floor(math.log10(spread))
        digits = max(digits, of_spread + size)
    return f"{value:.{digits}g}"


def number_cells(column: NDArray, spread: float = 0.0) -> list[str]:
    """Numbers [n] as text, NaN as an empty cell; see `format_value`."""
    return ["" if x != x else format_value(x, spread) for x in column.tolist()]


def label_cells(labels: ArrayLike, targets: TargetSchema, target: int) -> list[str]:
    """Labels of a target [n] as text; missing labels, NaN or class -1, are empty."""
    column = np.asarray(labels)
    words = targets.classes_of(target)
    missing = np.isnan(column) if column.dtype.kind == "f" else column < 0
    spread = targets.std[target] if targets.std else 0.0
    # Data are more exact than a float32.
    return [
        "" if empty else words[int(x)] if words else format_value(x, spread, 8, 9)
        for x, empty in zip(column.tolist(), missing, strict=True)
    ]


def class_labels(targets: TargetSchema) -> list[str]:
    """Names of the classes of a multiclass target, else their numbers."""
    return targets.classes_of(0) or [str(n) for n in range(targets.num_classes)]


def describe(
    targets: TargetSchema, target: int, values: NDArray, std: NDArray | None = None
) -> str:
    """The prediction [C] for a target of a molecule in words.

    >>> describe(TargetSchema(["gap"], "eV"), 0, np.array([1 / 3]), np.array([0.02]))
    '0.3333 ± 0.02 eV'
    """
    if targets.kind == "multiclass":
        best = int(values.argmax())
        return f"{class_labels(targets)[best]}, probability {values[best]:.3f}"
    if targets.kind == "binary":
        of = "".join(f" of {word}" for word in targets.classes_of(target)[1:])
        return f"probability{of} {values[target]:.3f}"
    scale = targets.std[target] if targets.std else 0.0
    value = format_value(values[target], scale, 4, 2)
    spread = "" if std is None else f" ± {std[target]:.2g}"
    unit = targets.units[target].replace("dimensionless", "")
    return f"{value}{spread} {unit}".rstrip()
