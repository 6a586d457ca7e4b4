"""Ranges of columns that come chunk by chunk, from which types and vocabularies follow."""

import logging
import math

import numpy as np

from graphormer_plugin.data.schema import MAX_BOND_TYPES, MAX_RADIX_TYPES, FeatureSchema

# Categories of a column that get a line, and that are refused (our choices).
MANY_CATEGORIES = 1000
MAX_CATEGORIES = 1_000_000

logger = logging.getLogger(__name__)


class Column:
    """Smallest and largest values of a column of a store, chunk by chunk.

    ``dims`` is the number of categories of each of its columns, None where it is unknown.
    """

    def __init__(self, name: str, dims: list[int] | None = None) -> None:
        self.name = name
        self.dims = dims
        self.kind = "" if dims is None else "integers"
        self.tail: tuple[int, ...] = () if dims is None else (len(dims),)
        self.rows = self.low = self.high = 0
        self.largest = np.zeros(
            self.tail, np.int64
        )  # largest value of each column of integers

    def measure(self, values: np.ndarray) -> None:
        """Takes further rows; ValueError if they are of another kind or shape, or beyond the
        known ranges."""
        kind = "floats" if values.dtype.kind == "f" else "integers"
        rows = f"{kind} {list(values.shape[1:])}"
        if not self.kind:
            self.kind = kind
            self.tail = values.shape[1:]
        if (expected := f"{self.kind} {list(self.tail)}") != rows:
            raise ValueError(f"{self.name} has rows of {rows}, expected {expected}")
        self.rows += len(values)
        if kind == "floats":
            return
        self.low = min(self.low, int(values.min(initial=0)))
        self.high = max(self.high, int(values.max(initial=0)))
        largest = values.max(axis=0, initial=0).astype(np.int64)
        self.largest = np.maximum(self.largest, largest)
        for column, dim in enumerate(self.dims or ()):
            if largest[column] >= dim:
                value = f"{self.name} column {column} is {largest[column]}"
                raise ValueError(f"{value}, expected 0..{dim - 1}")

    def dtype(self, dtypes: tuple[np.dtype, ...]) -> str:
        """The first of some types that holds all values: float32 for floats, and for integers
        of a column whose types are floats only."""
        integers = [dtype for dtype in dtypes if dtype.kind in "iu"]
        if self.kind == "floats" or not integers:
            return np.dtype(np.float32).str
        for dtype in integers:
            limits = np.iinfo(dtype)
            if limits.min <= self.low and self.high <= limits.max:
                return dtype.str
        raise ValueError(
            f"{self.name} has a value in {self.low}..{self.high}, expected "
            f"{limits.min}..{limits.max}"
        )

    def vocabularies(self) -> list[int] | None:
        """Number of values of each column of categories, if it is not known by its largest
        value; None of floats."""
        if self.dims is not None or self.kind != "integers":
            return self.dims
        for column, value in enumerate(self.largest.tolist()):
            text = f"{self.name} column {column} has categories up to {value:,}"
            if value >= MAX_CATEGORIES:
                raise ValueError(
                    f"{text}: number them from 0, or give counts as floats"
                )
            if value >= MANY_CATEGORIES:
                advice = "each with a row in the model's table; give counts as floats"
                logger.warning("%s, %s", text, advice)
        return (self.largest + 1).tolist()


class BondColumns:
    """Ranges of the bond columns, or the combinations that occur; ``dims`` has the number of
    values of each column, if that is known."""

    def __init__(self, dims: list[int] | None) -> None:
        self._column = Column("edge_attr", dims)
        self._rows: set[tuple[int, ...]] = set()
        self._radix = dims is not None and math.prod(dims) <= MAX_RADIX_TYPES

    def add(self, edge_attr: np.ndarray | None, edges: int) -> None:
        """Takes the bonds of further edges, see `Column.measure`; ValueError for too many
        combinations."""
        if edge_attr is None:
            if not edges:
                return
            edge_attr = np.zeros((edges, 0), np.int64)
        self._column.measure(edge_attr)
        if self._radix or not edge_attr.shape[1]:
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
        dims = list(self._column.vocabularies() or ())
        table = None
        if math.prod(dims) > MAX_RADIX_TYPES:
            table = [list(row) for row in sorted(self._rows)]
        return FeatureSchema(width, node_dims, dims, table, edge_features)
