"""Columns of the workbench's tables: their layout, forces and parts."""

import json
from collections.abc import Iterable, Sequence

from numpy.typing import NDArray

from graphormer_plugin.data.columns import FORCES, LINK_LEVELS, Level
from graphormer_plugin.estimators.prediction import antilog
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
        ("low", "high"),
        ("in_domain",),
    ],
)


def forces_column(forces: Iterable[NDArray]) -> OutputColumn:
    """Forces on the atoms of each molecule [N, 3], as lists in JSON."""
    cells = [
        json.dumps([[float(format_value(x)) for x in atom] for atom in one.tolist()])
        for one in forces
    ]
    return OutputColumn(FORCES, cells, False)


def parts_column(level: Level, parts: Iterable[NDArray]) -> OutputColumn:
    """Predictions of `Predictor.predicted_parts` of each molecule, as lists in JSON."""
    atoms = 2 if level in LINK_LEVELS else 0
    cells = [
        json.dumps(
            [
                [*map(int, row[:atoms]), *(float(format_value(x)) for x in row[atoms:])]
                for row in of_molecule.tolist()
            ]
        )
        for of_molecule in parts
    ]
    return OutputColumn(f"{level}s", cells, False)


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of new columns; a name that the input has already ends in _predicted."""
    result: list[str] = []
    for name in names:
        while name in taken or name in result:
            name += "_predicted"
        result.append(name)
    return result


def unlogged_cell(label: float) -> str:
    """Measured value of a decadic logarithm as text, NaN as an empty cell: the ten digits
    in which the two roundings do not show."""
    return "" if label != label else f"{antilog(label):.10g}"
