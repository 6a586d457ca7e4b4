"""Graphs as arrays on their way into a store, and the check that each graph passes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from graphormer_plugin.data.columns import Columns, Level, column_type, row_width

# Splits of the nodes of a graph, numbered from 1, and the masks that PyG has for them.
NODE_SPLITS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
CHUNK_ROWS = 256  # a fraction of a second of work, so that Ctrl-C is obeyed at once


class MoleculeGraph(NamedTuple):
    """The graph of a SMILES, as a parser returns it.

    Attributes:
        x: int or float [n, F], n >= 1.
        edge_index: int [2, E].
        edge_attr: int [E, columns].
        extras: values per molecule that targets or splits need, such as a scaffold:
            JSON values. Tuples and arrays become lists, which parts on disk have.
        pos: float [n, 3] in angstrom, if it has positions.
        forces: float [n, 3], labels of its atoms, if it has some.
    """

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray
    extras: dict[str, Any] = {}
    pos: np.ndarray | None = None
    forces: np.ndarray | None = None


# Number of values of each node and bond column.
Dims = tuple[list[int], list[int]]


def node_split_number(split: str) -> int:
    """Number of a split in `GraphChunk.node_split`."""
    return 1 + list(NODE_SPLITS).index(split)


@dataclass
class GraphChunk:
    """Consecutive graphs.

    Attributes:
        num_nodes: int [g], at least 1.
        num_edges: int [g], directed.
        x: categories from 0 (integers) or features (floats) [sum n, F].
        edge_index: int [2, sum e], node numbers within each graph.
        edge_attr: categories from 0 (integers) or features (floats) [sum e, columns];
            None if edges carry nothing.
        target: labels [rows of their level, C]: of graphs float, of others classes (int) or
            numbers (float); None if given later.
        edge_label_index: int [2, rows of labels], numbers within each graph of the two nodes that a
            label of an edge or link has; None of other labels.
        num_links: int [g], labels of links; None of other labels.
        row: int [g] row of the source; None if it is the graph's number.
        node_split: uint8 [sum n] number in `NODE_SPLITS` of the split that the label of a
            node belongs to, 0 for none; None where splits are of graphs.
        attributes: numbers [sum n, ...] or [sum e, ...] by the names of their columns:
            ``pos`` and ``forces``, [sum n, 3], and what registered fields read.
    """

    num_nodes: np.ndarray
    num_edges: np.ndarray
    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray | None = None
    target: np.ndarray | None = None
    edge_label_index: np.ndarray | None = None
    num_links: np.ndarray | None = None
    row: np.ndarray | None = None
    node_split: np.ndarray | None = None
    attributes: Columns = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.num_nodes)

    @classmethod
    def joined(cls, chunks: Sequence["GraphChunk"]) -> "GraphChunk":
        """Join consecutive chunks, at least one.

        All have the same arrays, but those without edges may lack `edge_attr`.
        """
        parts: dict[str, list[np.ndarray]] = {}
        for chunk in chunks:
            for name, array in chunk.arrays().items():
                parts.setdefault(name, []).append(array)
        return cls.from_arrays(
            {
                name: np.concatenate(arrays, axis=column_type(name).axis)
                for name, arrays in parts.items()
            }
        )

    def with_edge_label_index(self, level: Level) -> "GraphChunk":
        """These graphs with an `edge_label_index`, if they have none: all edges, or at link level
        the pairs i < j (our choice)."""
        if self.edge_label_index is not None:
            return self
        if level is Level.EDGE:
            return replace(self, edge_label_index=self.edge_index)
        sizes = self.num_nodes.astype(np.int64)
        ends = [np.stack(np.triu_indices(size, 1)) for size in sizes.tolist()]
        counts = sizes * (sizes - 1) // 2
        return replace(self, edge_label_index=np.hstack(ends), num_links=counts)

    def arrays(self) -> Columns:
        """All arrays by name; inverse of `from_arrays`."""
        arrays = {name: a for name, a in vars(self).items() if a is not None}
        return arrays.pop("attributes") | arrays

    @classmethod
    def from_arrays(cls, arrays: Columns) -> "GraphChunk":
        """A chunk of its `arrays`."""
        rest = dict(arrays)
        names = [name for name in arrays if column_type(name).is_attribute]
        attributes = {name: rest.pop(name) for name in names}
        return cls(**rest, attributes=attributes)

    def check(self, first: int = 0) -> None:
        """ValueError for wrong shapes, types and ranges, except vocabularies; graphs count from
        ``first`` in messages."""
        graphs_of_rows = {
            Level.NODE: np.repeat(np.arange(len(self)), self.num_nodes),
            Level.EDGE: np.repeat(np.arange(len(self)), self.num_edges),
        }
        self._check_ends("edge_index", graphs_of_rows[Level.EDGE], first)
        if self.num_links is not None:
            graphs = np.repeat(np.arange(len(self)), self.num_links)
            self._check_ends("edge_label_index", graphs, first)
        tables = {"x": self.x, "edge_attr": self.edge_attr}
        for name, values in self.attributes.items():
            tables[name] = values.reshape(len(values), row_width(values))
        for name, table in tables.items():
            if table is not None:
                graphs = graphs_of_rows[column_type(name).level]
                _check_table(name, table, graphs, first)

    def _check_ends(self, name: str, graphs: np.ndarray, first: int) -> None:
        """Edges, or links, join nodes of their graph."""
        ends = getattr(self, name)
        name = column_type(name).attribute
        has_integers = ends.size == 0 or ends.dtype.kind in "iu"
        if ends.shape != (2, len(graphs)) or not has_integers:
            raise ValueError(
                f"{name} has shape {list(ends.shape)} and dtype {ends.dtype}, "
                f"expected [2, {len(graphs)}] of integers"
            )
        num_nodes = self.num_nodes[graphs]
        outside = (ends < 0) | (ends >= num_nodes)
        if outside.any():
            edge, end = np.argwhere(outside.T)[0]
            raise ValueError(
                f"graph {first + graphs[edge]}: {name} names node {ends[end, edge]}, "
                f"expected 0..{num_nodes[edge] - 1}"
            )


def _check_table(name: str, table: np.ndarray, graphs: np.ndarray, first: int) -> None:
    """A table has a row for each of its ``graphs``, of numbers that fit."""
    has_numbers = table.size == 0 or table.dtype.kind in "iubf"
    if table.ndim != 2 or len(table) != len(graphs) or not has_numbers:
        raise ValueError(
            f"{name} has shape {list(table.shape)} and dtype {table.dtype}, "
            f"expected [{len(graphs)}, columns] of numbers"
        )
    _check_values(name, table, graphs, first)


def _check_values(name: str, table: np.ndarray, graphs: np.ndarray, first: int) -> None:
    """Floats fit float32, and categories count from 0."""
    if table.dtype.kind == "f":
        with np.errstate(over="ignore"):
            outside = ~np.isfinite(table.astype(np.float32))
        if column_type(name).can_lack:
            outside &= ~np.isnan(table)
        noun = "a value"
        expected = "one that fits float32"
    else:
        outside = table < 0
        noun = "category"
        expected = "0 and above"
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"graph {first + graphs[row]}: {name} has {noun} {table[row, column]}, "
            f"expected {expected}"
        )


@dataclass
class FeaturisedRows:
    """Graphs of consecutive rows of a source, and the rows without a graph.

    Attributes:
        chunk: graphs; of SMILES, ``chunk.row`` is set. None without graphs.
        extras: list per name, one entry per graph.
        failures: (row, SMILES, reason) of each row that could not be parsed.
        descriptors: float32 [graphs, descriptors], if they are asked for.
        end: row of the source after the last of them.
    """

    chunk: GraphChunk | None
    extras: dict[str, list[Any]] = field(default_factory=dict)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    descriptors: np.ndarray | None = None
    end: int = 0

    @classmethod
    def joined(cls, pieces: Sequence["FeaturisedRows"]) -> "FeaturisedRows":
        """Join consecutive rows."""
        result = cls(None, end=pieces[-1].end)
        for piece in pieces:
            result.failures += piece.failures
            for name, values in piece.extras.items():
                result.extras.setdefault(name, []).extend(values)
        chunks = [piece.chunk for piece in pieces if piece.chunk is not None]
        if chunks:
            result.chunk = GraphChunk.joined(chunks)
        described = [p.descriptors for p in pieces if p.descriptors is not None]
        if described:
            result.descriptors = np.concatenate(described)
        return result

    def to_arrays(self) -> Columns:
        """Everything in arrays that need no pickle, integers in their smallest type."""
        arrays = {} if self.chunk is None else self.chunk.arrays()
        if self.descriptors is not None:
            arrays["descriptors"] = self.descriptors
        rest = {name: getattr(self, name) for name in _REST}
        rest_bytes = np.frombuffer(json.dumps(rest).encode(), np.uint8)
        small = {name: _smallest(array) for name, array in arrays.items()}
        return small | {"rest": rest_bytes}

    @classmethod
    def from_arrays(cls, arrays: Columns) -> "FeaturisedRows":
        """Inverse of `to_arrays`."""
        rest = json.loads(arrays.pop("rest").tobytes())
        rest["failures"] = [tuple(failure) for failure in rest["failures"]]
        rest["descriptors"] = arrays.pop("descriptors", None)
        for name in arrays.keys() & {"num_nodes", "num_edges", "num_links", "row"}:
            arrays[name] = arrays[name].astype(np.int64)
        return cls(GraphChunk.from_arrays(arrays) if arrays else None, **rest)


_REST = ("extras", "failures", "end")


def _smallest(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iu":
        return values
    ends = (values.min(initial=0), values.max(initial=0))
    return values.astype(np.result_type(*map(np.min_scalar_type, ends)))
