"""Numbers of bond types while a store is written, with or without known ranges."""

import numpy as np

from cython_ext import bond_dtype
from graphormer_plugin.data.schema import MAX_BOND_TYPES, MAX_RADIX_TYPES, FeatureSchema


class BondNumbers:
    """Numbers the bonds of chunk after chunk.

    With known ranges whose product is small, the numbers are the schema's types.
    Otherwise bonds are numbered in order of first appearance, and `types` translates
    these provisional numbers at the end.

    Args:
        dims: Number of values of each bond column; None if unknown.
    """

    def __init__(self, dims: list[int] | None) -> None:
        self._dims = dims
        self._width = None if dims is None else len(dims)
        self._max: np.ndarray | None = None
        self._numbers: dict[tuple[int, ...], int] = {}
        self._radix: FeatureSchema | None = None
        if dims is not None and np.prod(dims, dtype=float) <= MAX_RADIX_TYPES:
            self._radix = FeatureSchema(0, [], list(dims))

    def number(
        self, edge_attr: np.ndarray | None, edges: int
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Bond numbers [E], and sort keys that order edges as the final types do.

        Args:
            edge_attr: int [E, columns], or None.
            edges: E.

        Raises:
            ValueError: Earlier chunks had other columns, a value exceeds
                the given ranges, or there are too many combinations.
        """
        if not edges and edge_attr is None:
            return np.empty(0, dtype=np.int64), ()
        width = 0 if edge_attr is None else edge_attr.shape[1]
        if self._width is None:
            self._width = width
        if width != self._width:
            raise ValueError(f"edge_attr has {width} columns, expected {self._width}")
        if width == 0:
            return np.ones(edges, dtype=np.int64), ()
        if self._radix is not None:
            types = self._radix.bond_types(edge_attr)
            return types, (types,)
        largest = largest_in("edge_attr", edge_attr, self._dims)
        self._max = largest if self._max is None else np.maximum(self._max, largest)
        rows, inverse = np.unique(edge_attr, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)  # [E]; ranks of rows, in lexicographic order
        numbers = [
            self._numbers.setdefault(tuple(row), len(self._numbers) + 1)
            for row in rows.tolist()
        ]
        if len(self._numbers) >= MAX_BOND_TYPES:
            raise ValueError(
                f"edge_attr has {MAX_BOND_TYPES} different rows or more; are the edge "
                "features continuous? Give them as floats"
            )
        # Lexicographic keys make the order of edges independent of the numbers.
        return np.array(numbers, dtype=np.int64)[inverse], (inverse,)

    def schema(
        self, width: int, node_dims: list[int] | None, edge_features: int = 0
    ) -> FeatureSchema:
        """Schema with all bonds that were numbered; ``width`` counts the node columns."""
        if self._dims is not None:
            dims = list(self._dims)
        elif self._max is not None:
            dims = (self._max + 1).tolist()
        else:
            dims = [1] * (self._width or 0)
        table = None
        if np.prod(dims, dtype=float) > MAX_RADIX_TYPES:
            table = [list(row) for row in sorted(self._numbers)]
        return FeatureSchema(width, node_dims, dims, table, edge_features)

    def types(self, schema: FeatureSchema) -> np.ndarray | None:
        """The schema's type by provisional number; None if the numbers are final."""
        if self._radix is not None or not schema.bond_dims:
            return None
        table = np.zeros(len(self._numbers) + 1, bond_dtype(schema.num_bond_types))
        if self._numbers:
            rows = np.array(list(self._numbers), dtype=np.int64)
            table[1:] = schema.bond_types(rows)
        return table


def largest_in(name: str, table: np.ndarray, dims: list[int] | None) -> np.ndarray:
    """Largest value of each column of categories [rows, columns], int64 [columns].

    Raises:
        ValueError: A value is outside its range.
    """
    largest = table.max(axis=0, initial=0).astype(np.int64)
    for column, dim in enumerate(dims or ()):
        if largest[column] >= dim:
            raise ValueError(
                f"{name} column {column} is {largest[column]}, expected 0..{dim - 1}"
            )
    return largest
