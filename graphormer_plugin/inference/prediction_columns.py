"""Columns of predictions in every table that is written: their kinds, order and cells."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.columns import is_missing
from graphormer_plugin.data.targets import Kind, Target, TargetSchema
from graphormer_plugin.estimators.prediction import IN_DOMAIN, Interval, class_scores


class OutputColumn(NamedTuple):
    """A column of a table: for each row a number, NaN where there is none, which a writer
    turns into ``text``; a word; or an array as nested lists, which become JSON."""

    name: str
    cells: list[Any]
    text: Callable[[float], str] | None = None  # of numbers

    @property
    def texts(self) -> list[Any]:
        """The cells as a CSV has them."""
        return self.cells if self.text is None else [*map(self.text, self.cells)]


ByKind = dict[str, list[OutputColumn]]  # see `Layout.order`


class Layout(NamedTuple):
    """Names and order of the columns in a kind of file."""

    value: str  # ending of the name of a predicted value, or of the most probable class
    probability: str  # text between the names of a target and of a class
    order: Sequence[Sequence[str]]  # groups of kinds, which alternate target by target


# graphormer-predict: a new table has no measured values, so predictions have their names.
PREDICTED = Layout(
    "",
    "_probability_",
    [
        ("value", "std"),
        ("low", "high"),
        ("probability",),
        ("member",),
        ("in_domain",),
        ("class", "set"),
    ],
)
# fairseq-validate: the measured value is ``<target>_target``. Files that were written and
# programs that read them have these names, and ``<target>_0`` for a class.
VALIDATED = Layout("", "_", [("value",), ("label",), ("probability",), ("class",)])
# graphormer-train: the measured value stands beside it, as ``<target>``.
COMPARED = Layout(
    "_predicted",
    "_probability_",
    [
        ("value",),
        ("class",),
        ("probability",),
        ("std",),
        ("low", "high", "set"),
        ("in_domain",),
    ],
)


def prediction_columns(
    targets: TargetSchema,
    values: NDArray,
    std: NDArray | None = None,
    in_domain: NDArray | None = None,
    low: NDArray | None = None,
    high: NDArray | None = None,
    members: NDArray | None = None,
    labels: NDArray | None = None,
    layout: Layout = PREDICTED,
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
        low, high: ends of the interval [n, C].
        members: see `Estimate`; each has the columns of a prediction.
        labels: measured values [n, T], NaN where missing; -1 for a class of a node.
        interval: tells which targets have two more columns with these ends, or one with a
            set of classes.
    """
    by_kind = {
        Kind.REGRESSION: _number_columns,
        Kind.BINARY: _binary_columns,
        Kind.MULTICLASS: _multiclass_columns,
    }
    each = []
    if members is not None:
        each = np.split(members, members.shape[1] // values.shape[1], 1)
    of_targets: list[ByKind] = []
    for index, (target, outputs) in enumerate(zip(targets.targets, targets.outputs)):
        name = target.name
        own = values[:, outputs]
        spread = None if std is None else std[:, outputs]
        columns = by_kind[target.kind](target, own, spread, layout)
        if interval is not None and interval.factor[outputs.start]:
            for end, ends in (("low", low), ("high", high)):
                title = f"{name}_{end}{100 * interval.coverage:g}"
                column = ends[:, outputs.start]
                columns[end] = [number_column(title, column, target.deviation)]
        if interval is not None and name in interval.limits:
            columns["set"] = [_set_column(target, own, interval)]
        for number, part in enumerate(each, 1):
            member = replace(target, name=f"{name}_member{number}")
            parts = by_kind[target.kind](member, part[:, outputs], None, layout)
            columns.setdefault("member", []).extend(chain(*parts.values()))
        if labels is not None:
            columns["label"] = [label_column(labels[:, index], target)]
        if in_domain is not None and in_domain.ndim > 1:
            column = in_domain[:, outputs.start]
            columns["in_domain"] = [number_column(f"{name}_{IN_DOMAIN}", column)]
        of_targets.append(columns)
    if in_domain is not None and in_domain.ndim == 1:
        of_targets[-1]["in_domain"] = [number_column(IN_DOMAIN, in_domain)]
    ordered = (
        columns.get(kind, ())
        for group in layout.order
        for columns in of_targets
        for kind in group
    )
    return [*chain.from_iterable(ordered)]


def _number_columns(
    target: Target, values: NDArray, std: NDArray | None, layout: Layout
) -> ByKind:
    """The value, and its standard deviation."""
    title = target.name + layout.value
    columns = {"value": [number_column(title, values[:, 0], target.deviation)]}
    return columns | _std_column(target, None if std is None else std[:, 0])


def _binary_columns(
    target: Target, values: NDArray, std: NDArray | None, layout: Layout
) -> ByKind:
    """The probability of class 1, and the more probable class, if it has a name."""
    columns = _number_columns(target, values, std, layout)
    if target.classes:
        words = [target.classes[number] for number in target.likeliest(values)]
        columns["class"] = [OutputColumn(f"{target.name}_class", words)]
    return columns


def _multiclass_columns(
    target: Target, values: NDArray, std: NDArray | None, layout: Layout
) -> ByKind:
    """The most probable class, and the probability of each class."""
    best = target.likeliest(values)
    title = target.name + layout.value
    value = number_column(title, best)
    if target.classes:
        value = OutputColumn(title, [target.classes[number] for number in best])
    columns = {
        "value": [value],
        "probability": [
            number_column(f"{target.name}{layout.probability}{label}", column)
            for label, column in zip(target.class_labels, values.T, strict=True)
        ],
    }
    if std is not None:
        std = np.take_along_axis(std, best[:, None], 1)[:, 0]
    return columns | _std_column(target, std)


def _set_column(target: Target, values: NDArray, interval: Interval) -> OutputColumn:
    """The classes that a conformal set has."""
    is_in = class_scores(target, values) <= interval.limits[target.name]
    cells = ["|".join(compress(target.class_labels, row)) for row in is_in]
    return OutputColumn(f"{target.name}_set{100 * interval.coverage:g}", cells)


def _std_column(target: Target, std: NDArray | None) -> ByKind:
    if std is None:
        return {}
    return {"std": [number_column(f"{target.name}_std", std)]}


def format_value(
    value: float, spread: float = 0.0, digits: int = 7, of_spread: int = 8
) -> str:
    """A number as text, with at least ``digits``; NaN is empty.

    If ``spread``, the standard deviation of its target, is known, the float32 of the
    standardised value is read back from the text, however large the value is. A number as
    large as ``spread`` has ``of_spread`` digits.

    >>> format_value(1 / 3), format_value(2.0), format_value(1e7 + 1 / 3, spread=1.5)
    ('0.3333333', '2', '10000000.3333333')
    """
    if value != value:
        return ""
    if spread and value:
        size = math.floor(math.log10(abs(value))) - math.floor(math.log10(spread))
        digits = max(digits, of_spread + size)
    return f"{value:.{digits}g}"


def number_column(name: str, values: NDArray, spread: float = 0.0) -> OutputColumn:
    """A column of numbers [n]; for ``spread`` see `format_value`."""
    return OutputColumn(name, values.tolist(), partial(format_value, spread=spread))


def label_column(labels: NDArray, target: Target) -> OutputColumn:
    """Labels of a target [n]."""
    name = f"{target.name}_target"
    cells = np.where(is_missing(labels), np.nan, labels).tolist()
    if words := target.classes:
        return OutputColumn(name, ["" if x != x else words[int(x)] for x in cells])
    # Data are more exact than a float32.
    text = partial(format_value, spread=target.deviation, digits=8, of_spread=9)
    return OutputColumn(name, cells, text)


def describe(target: Target, values: NDArray, std: NDArray | None = None) -> str:
    """The prediction for a molecule, [num_outputs], in words.

    >>> describe(Target("gap", "eV"), np.array([1 / 3]), np.array([0.02]))
    '0.3333 ± 0.02 eV'
    """
    if target.kind.is_number:
        value = format_value(values[0], target.deviation, 4, 2)
        spread = "" if std is None else f" ± {std[0]:.2g}"
        unit = target.label_unit.replace("dimensionless", "")
        return f"{value}{spread} {unit}".rstrip()
    if target.kind.has_one_output:
        of = "".join(f" of {word}" for word in target.classes[1:])
        return f"probability{of} {values[0]:.3f}"
    best = int(target.likeliest(values))
    return f"{target.class_labels[best]}, probability {values[best]:.3f}"


def array_column(
    name: str, arrays: Iterable[NDArray], integers: int = 0
) -> OutputColumn:
    """An array [n, columns] of each molecule, whose first columns are ``integers``."""
    cells = [
        [
            [
                *map(int, row[:integers]),
                *(float(format_value(x)) for x in row[integers:]),
            ]
            for row in array.tolist()
        ]
        for array in arrays
    ]
    return OutputColumn(name, cells)


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of new columns; a name that the input has already ends in _predicted."""
    result: list[str] = []
    for name in names:
        while name in taken or name in result:
            name += "_predicted"
        result.append(name)
    return result
