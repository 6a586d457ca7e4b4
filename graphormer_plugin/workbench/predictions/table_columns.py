"""Columns of the workbench's tables: their layout, and arrays."""

from collections.abc import Iterable, Sequence

from numpy.typing import NDArray

from graphormer_plugin.inference.prediction_columns import (
    Layout,
    OutputColumn,
    format_value,
)

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
    return OutputColumn(name, cells, False)


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of new columns; a name that the input has already ends in _predicted."""
    result: list[str] = []
    for name in names:
        while name in taken or name in result:
            name += "_predicted"
        result.append(name)
    return result
