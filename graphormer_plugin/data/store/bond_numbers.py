"""Columns of bonds while graphs are read, with or without known ranges."""

import logging
import math

import numpy as np

from graphormer_plugin.data.schema import MAX_BOND_TYPES, MAX_RADIX_TYPES, FeatureSchema

MANY_CATEGORIES = 1000  # of a column, which get a line (our choice)

logger = logging.getLogger(__name__)


class BondColumns:
    """Ranges of the bond columns of chunk after chunk, or the combinations that occur;
    ``dims`` has the number of values of each column, if that is known."""

    def __init__(self, dims: list[int] | None) -> None:
        self._dims = dims
        self._width = None if dims is None else len(dims)
        self._max: np.ndarray | None = None
        self._rows: set[tuple[int, ...]] = set()
        self._radix = dims is not None and math.prod(dims) <= MAX_RADIX_TYPES

    def add(self, edge_attr: np.ndarray | None, edges: int) -> None:
        """Takes the bonds of further edges; ValueError for other columns than before, values
        beyond the given ranges, and too many combinations."""
        if not edges and edge_attr is None:
            return
        width = 0 if edge_attr is None else edge_attr.shape[1]
        if self._width is None:
            self._width = width
        if width != self._width:
            raise ValueError(f"edge_attr has {width} columns, expected {self._width}")
        if width == 0:
            return
        largest = largest_in("edge_attr", edge_attr, self._dims)
        self._max = largest if self._max is None else np.maximum(self._max, largest)
        if self._radix:
            return
        self._rows.update(map(tuple, np.unique(edge_attr, axis=0).tolist()))
        if len(self._rows) >= MAX_BOND_TYPES:
            raise ValueError(
                f"edge_attr has {MAX_BOND_TYPES} different rows or more; are the edge "
                "features continuous? Give them as floats"
            )

    def schema(
        self, width: int, node_dims: list[int] | None, edge_features: int = 0
    ) -> FeatureSchema:
        """Schema with the bonds so far; ``width`` counts the node columns."""
        if self._dims is not None:
            dims = list(self._dims)
        elif self._max is not None:
            dims = vocabularies("edge_attr", self._max)
        else:
            dims = [1] * (self._width or 0)
        table = None
        if math.prod(dims) > MAX_RADIX_TYPES:
            table = [list(row) for row in sorted(self._rows)]
        return FeatureSchema(width, node_dims, dims, table, edge_features)


def largest_in(name: str, table: np.ndarray, dims: list[int] | None) -> np.ndarray:
    """Largest value of each column of categories [rows, columns], int64 [columns]."""
    largest = table.max(axis=0, initial=0).astype(np.int64)
    for column, dim in enumerate(dims or ()):
        if largest[column] >= dim:
            raise ValueError(
                f"{name} column {column} is {largest[column]}, expected 0..{dim - 1}"
            )
    return largest


def vocabularies(name: str, largest: np.ndarray) -> list[int]:
    """Number of values of each column of categories, by its largest value."""
    for column, value in enumerate(largest.tolist()):
        text = f"{name} column {column} has categories up to {value:,}"
        if value >= MANY_CATEGORIES:
            logger.warning(
                "%s, each with a row in the model's table; give counts as floats", text
            )
    return (largest + 1).tolist()
