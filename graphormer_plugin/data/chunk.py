"""Graphs as arrays on their way into a store, and the check that each graph passes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

# Splits of the nodes of a graph, numbered from 1, and the masks that PyG has for them.
NODE_SPLITS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
CHUNK_ROWS = 256  # a fraction of a second of work, so that Ctrl-C is obeyed at once


class MoleculeGraph(NamedTuple):
    """The graph of a SMILES, as a parser returns it.

    Attributes:
        x: int or float [n, F], n >= 1.
        edge_index: int [2, E].
        edge_attr: int [E, columns].
        extras: Values per molecule that targets or splits need, such as a scaffold:
            JSON values. Tuples and arrays become lists, which parts on disk have.
    """

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray
    extras: dict[str, Any] = {}


# Function of one SMILES; raises ValueError with the reason if it refuses it.
Parser = Callable[[str], MoleculeGraph]


@dataclass
class GraphChunk:
    """Consecutive graphs.

    Attributes:
        num_nodes: int [g], at least 1.
        num_edges: int [g], directed.
        x: Categories from 0 (integers) or features (floats) [sum n, F].
        edge_index: int [2, sum e], node numbers within each graph.
        edge_attr: Categories from 0 (integers) or features (floats) [sum e, columns];
            None if edges carry nothing. Edges with features are distinct: no two have
            the same ends.
        target: float [g, C], or at node level [sum n] classes (int) or values (float);
            None if given later.
        pos: float32 [sum n, 3] or None.
        row: int [g] row of the source; None if it is the graph's number.
        node_split: uint8 [sum n] number in `NODE_SPLITS` of the split that the label of a
            node belongs to, 0 for none; None where splits are of graphs.
        attributes: Numbers float32 [sum n, ...] or [sum e, ...] that registered fields
            read, by the names of their columns, ``node.<name>`` or ``edge.<name>``.
    """

    num_nodes: np.ndarray
    num_edges: np.ndarray
    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray | None = None
    target: np.ndarray | None = None
    pos: np.ndarray | None = None
    row: np.ndarray | None = None
    node_split: np.ndarray | None = None
    attributes: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.num_nodes)

    @classmethod
    def joined(cls, chunks: Sequence["GraphChunk"]) -> "GraphChunk":
        """Joins consecutive chunks, at least one.

        All have the same arrays, but those without edges may lack `edge_attr`.
        """
        parts: dict[str, list[np.ndarray]] = {}
        for chunk in chunks:
            for name, array in chunk.arrays().items():
                parts.setdefault(name, []).append(array)
        return cls.from_arrays(
            {
                name: np.concatenate(arrays, axis=1 if name == "edge_index" else 0)
                for name, arrays in parts.items()
            }
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name; inverse of `from_arrays`."""
        arrays = {name: a for name, a in vars(self).items() if a is not None}
        return arrays.pop("attributes") | arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "GraphChunk":
        """A chunk of its `arrays`."""
        own = {name: array for name, array in arrays.items() if "." in name}
        rest = {name: array for name, array in arrays.items() if "." not in name}
        return cls(**rest, attributes=own)

    def check(self, first: int = 0) -> None:
        """ValueError for wrong shapes, types and ranges, except vocabularies; graphs count from
        ``first`` in messages."""
        num_nodes, num_edges = self.num_nodes, self.num_edges
        num_ends = np.repeat(num_nodes, num_edges)[:, None]  # [E, 1]
        counts = {"node": num_nodes, "edge": num_edges}
        for name, table, sizes, kinds in (
            ("x", self.x, num_nodes, "iubf"),
            ("pos", self.pos, num_nodes, "iubf"),
            ("edge_index.T", self.edge_index.T, num_edges, "iu"),
            ("edge_attr", self.edge_attr, num_edges, "iubf"),
            *(
                (name, table.reshape(len(table), -1), counts[name[:4]], "f")
                for name, table in self.attributes.items()
            ),
        ):
            if table is None:
                continue
            wrong_type = table.size > 0 and table.dtype.kind not in kinds
            if table.ndim != 2 or len(table) != sizes.sum() or wrong_type:
                raise ValueError(
                    f"{name} has shape {list(table.shape)} and dtype {table.dtype}, "
                    f"expected [{sizes.sum()}, columns] of "
                    f"{'numbers' if 'f' in kinds else 'integers'}"
                )
            if name == "edge_index.T":
                wrong = (table < 0) | (table >= num_ends)
                text = "edge_index names node {}, expected 0..{}"
            elif table.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    wrong = ~np.isfinite(table.astype(np.float32))
                text = name + " has a value {}, expected one that fits float32"
            else:
                wrong = table < 0
                text = name + " has category {}, expected 0 and above"
            if wrong.any():
                row, column = np.argwhere(wrong)[0]
                graph = np.searchsorted(np.cumsum(sizes), row, side="right")
                text = text.format(table[row, column], num_nodes[graph] - 1)
                raise ValueError(f"graph {first + int(graph)}: {text}")
        if self.edge_attr is not None and self.edge_attr.dtype.kind == "f":
            self._check_distinct_edges(first)

    def _check_distinct_edges(self, first: int) -> None:
        graph = np.repeat(np.arange(len(self)), self.num_edges)
        rows = np.stack([graph, *self.edge_index], 1)
        rows = rows[np.lexsort(rows.T[::-1])]
        twice = (rows[1:] == rows[:-1]).all(1)
        if twice.any():
            graph, source, target = rows[int(twice.argmax())]
            raise ValueError(
                f"graph {first + graph}: two edges from node {source} to node {target}; "
                "edges with real features must be distinct"
            )


@dataclass
class FeaturisedRows:
    """Graphs of consecutive rows of a source, and the rows without a graph.

    Attributes:
        chunk: Graphs; of SMILES, ``chunk.row`` is set. None without graphs.
        extras: List per name, one entry per graph.
        failures: (row, SMILES, reason) of each row that could not be parsed.
        descriptors: float32 [graphs, descriptors], if they are asked for.
        end: Row of the source after the last of them.
    """

    chunk: GraphChunk | None
    extras: dict[str, list[Any]] = field(default_factory=dict)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    descriptors: np.ndarray | None = None
    end: int = 0

    @classmethod
    def joined(cls, pieces: Sequence["FeaturisedRows"]) -> "FeaturisedRows":
        """Joins consecutive rows."""
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

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything in arrays that need no pickle, integers in their smallest type."""
        arrays = {} if self.chunk is None else self.chunk.arrays()
        if self.descriptors is not None:
            arrays["descriptors"] = self.descriptors
        rest = {name: getattr(self, name) for name in _REST}
        rest_bytes = np.frombuffer(json.dumps(rest).encode(), np.uint8)
        small = {name: _smallest(array) for name, array in arrays.items()}
        return small | {"rest": rest_bytes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "FeaturisedRows":
        """Inverse of `to_arrays`."""
        rest = json.loads(arrays.pop("rest").tobytes())
        rest["failures"] = [tuple(failure) for failure in rest["failures"]]
        rest["descriptors"] = arrays.pop("descriptors", None)
        for name in arrays.keys() & {"num_nodes", "num_edges", "row"}:
            arrays[name] = arrays[name].astype(np.int64)
        return cls(GraphChunk.from_arrays(arrays) if arrays else None, **rest)


_REST = ("extras", "failures", "end")


def _smallest(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iu":
        return values
    ends = (values.min(initial=0), values.max(initial=0))
    return values.astype(np.result_type(*map(np.min_scalar_type, ends)))
