"""Index spaces: what the columns of nodes and edges mean.

Node columns keep their own ranges. Bond columns become a single bond type per edge,
so that a pair of nodes carries one small integer.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# The joint type of all bond columns is a mixed-radix number up to this many values,
# so that it fits a byte together with 0 = no bond.
MAX_RADIX_TYPES = 254
MAX_BOND_TYPES = 65535  # uint16 with 0 = no bond
MAX_SCALED = 5.0  # largest standardised feature, in absolute value; our choice


@dataclass(frozen=True)
class FeatureSchema:
    """Columns of nodes and edges.

    Bond types are numbered from 1. If all ranges are known and their product is at most
    254 (OGB's bonds: 5 x 6 x 2 = 60), the type is the mixed-radix number of the
    columns, first column most significant: it depends on no data set, and a checkpoint
    meets no unknown type. Otherwise the combinations that occur at preparation are
    numbered in lexicographic order, and a last type, UNKNOWN, takes all others.
    Without edge features every edge has type 1.

    Attributes:
        num_node_features: columns of ``x``.
        node_dims: number of values of each column, from 0; None for float features.
        bond_dims: number of values of each bond column; empty without edge features.
        bond_table: combinations [types, columns] where the product is too large,
            else None.
        num_edge_features: real numbers per edge. Such edges have type 1 and no bond
            columns.
        graph_features: names of K real numbers per graph, columns of a table or RDKit's
            descriptors (`descriptors.PREFIX`).
        graph_mean: their means over the training split [K].
        graph_std: their population standard deviations; 1 for a constant feature.
        seen: categories that the training graphs of a model have, of each column of nodes
            and last the types of edges; empty where they are not known.
        ranges: least and largest of each column of their real features.

    Example:
        >>> schema = FeatureSchema(2, [119, 5], [5, 6, 2])
        >>> schema.num_bond_types
        60
        >>> schema.bond_types(np.array([[0, 0, 0], [3, 0, 1], [4, 5, 1]]))
        array([ 1, 38, 60])
    """

    num_node_features: int
    node_dims: list[int] | None = None
    bond_dims: list[int] = field(default_factory=list)
    bond_table: list[list[int]] | None = None
    num_edge_features: int = 0
    graph_features: list[str] = field(default_factory=list)
    graph_mean: list[float] = field(default_factory=list)
    graph_std: list[float] = field(default_factory=list)
    seen: list[list[int]] = field(default_factory=list)
    ranges: dict[str, list[list[float]]] = field(default_factory=dict)

    @property
    def num_bond_types(self) -> int:
        """Types are 1..num_bond_types; 0 is no bond."""
        if self.bond_table is not None:
            return len(self.bond_table) + 1  # and UNKNOWN
        return math.prod(self.bond_dims)

    @property
    def categorical(self) -> bool:
        """Whether node columns are integers that models embed."""
        return self.node_dims is not None

    def bond_types(self, edge_attr: Any) -> np.ndarray:
        """Types int64 [E], 1..num_bond_types, of bond columns [E, columns]. ValueError for a
        wrong number of columns and, without a table, for a value outside its range."""
        edge_attr = np.asarray(edge_attr)
        if not self.bond_dims:
            return np.ones(len(edge_attr), dtype=np.int64)
        if edge_attr.ndim != 2 or edge_attr.shape[1] != len(self.bond_dims):
            raise ValueError(
                f"edge_attr has shape {list(edge_attr.shape)}, expected "
                f"[E, {len(self.bond_dims)}]"
            )
        edge_attr = edge_attr.astype(np.int64)
        if self.bond_table is not None:
            type_of_row = {tuple(row): i + 1 for i, row in enumerate(self.bond_table)}
            rows, inverse = np.unique(edge_attr, axis=0, return_inverse=True)
            types = [
                type_of_row.get(tuple(row), self.num_bond_types)
                for row in rows.tolist()
            ]
            return np.array(types, dtype=np.int64)[inverse.reshape(-1)]
        outside = (edge_attr < 0) | (edge_attr >= self.bond_dims)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"edge_attr column {column} is {edge_attr[row, column]}, expected "
                f"0..{self.bond_dims[column] - 1}"
            )
        return np.ravel_multi_index(tuple(edge_attr.T), self.bond_dims) + 1

    def bond_columns(self) -> np.ndarray:
        """Bond columns of each type, int64 [num_bond_types + 1, columns]; -1 in row 0 (no
        bond) and in the row of UNKNOWN."""
        table = np.full((self.num_bond_types + 1, len(self.bond_dims)), -1, np.int64)
        if self.bond_table is not None:
            table[1:-1] = np.array(self.bond_table, dtype=np.int64).reshape(
                -1, len(self.bond_dims)
            )
        elif self.bond_dims:
            table[1:] = np.indices(self.bond_dims).reshape(len(self.bond_dims), -1).T
        return table

    def unscaled(self) -> "FeatureSchema":
        """This schema without what training graphs say: graph features are as they are."""
        count = len(self.graph_features)
        return dataclasses.replace(
            self,
            graph_mean=[0.0] * count,
            graph_std=[1.0] * count,
            seen=[],
            ranges={},
        )

    def as_trained(self, x: np.ndarray) -> np.ndarray:
        """Columns of nodes [n, F]. Those but the first that never varied in the training, such
        as tags of atoms, have their only value: weights of any other were never trained.
        """
        for column, values in enumerate(self.seen[1:-1], 1):
            if len(values) == 1 and (x[:, column] != values[0]).any():
                x = np.array(x)
                x[:, column] = values[0]
        return x

    def scale_graph_features(self, values: Any) -> np.ndarray:
        """Standardised numbers of graphs, cut at +-`MAX_SCALED`, 0 where missing."""
        scaled = (np.asarray(values, np.float64) - self.graph_mean) / self.graph_std
        return np.clip(np.nan_to_num(scaled), -MAX_SCALED, MAX_SCALED)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the later fields only if they are not empty."""
        first = ("num_node_features", "node_dims", "bond_dims", "bond_table")
        return {name: v for name, v in vars(self).items() if v or name in first}
