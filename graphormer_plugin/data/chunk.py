"""Graphs in arrays on their way into a store, and the one check of a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import numpy as np

CHUNK_ROWS = 256  # a fraction of a second of work, so that Ctrl-C is obeyed at once


class MoleculeGraph(NamedTuple):
    """What a parser returns for one SMILES.

    Attributes:
        x: int or float [n, F], n >= 1.
        edge_index: int [2, E].
        edge_attr: int [E, columns].
        extras: Values per molecule that targets or splits need, such as a scaffold.
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
        num_nodes: int [g] nodes of each graph, at least 1.
        num_edges: int [g] directed edges of each graph.
        x: Categories from 0 (integers) or features (floats) [sum n, F].
        edge_index: int [2, sum e], node numbers within each graph.
        edge_attr: Categories from 0, int [sum e, columns]; None if edges carry nothing.
        target: float [g, C], or int [sum n] at node level; None if given later.
        pos: float32 [sum n, 3] or None.
        row: int [g] row of the source; None if it is the graph's number.
    """

    num_nodes: np.ndarray
    num_edges: np.ndarray
    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: Optional[np.ndarray] = None
    target: Optional[np.ndarray] = None
    pos: Optional[np.ndarray] = None
    row: Optional[np.ndarray] = None

    def __len__(self) -> int:
        return len(self.num_nodes)

    @classmethod
    def joined(cls, chunks: Sequence[GraphChunk]) -> GraphChunk:
        """Joins consecutive chunks, at least one.

        All have the same arrays, but those without edges may lack `edge_attr`.
        """
        arrays = {}
        for entry in dataclasses.fields(cls):
            parts = [getattr(chunk, entry.name) for chunk in chunks]
            parts = [part for part in parts if part is not None]
            if parts:
                axis = 1 if entry.name == "edge_index" else 0
                arrays[entry.name] = np.concatenate(parts, axis=axis)
        return cls(**arrays)

    def check(self, first: int = 0) -> None:
        """Checks shapes, types and ranges, which no vocabulary is needed for.

        Args:
            first: Number of the first graph, for messages.

        Raises:
            ValueError: Something is wrong; names the graph where one is.
        """
        num_nodes, num_edges = np.asarray(self.num_nodes), np.asarray(self.num_edges)
        nodes, edges = int(num_nodes.sum()), int(num_edges.sum())

        def fail(graph: int, text: str) -> ValueError:
            return ValueError(f"graph {first + int(graph)}: {text}")

        if len(self) and num_nodes.min() < 1:
            raise fail(num_nodes.argmin(), "it has no nodes")
        edge_index = np.asarray(self.edge_index)
        if edge_index.shape != (2, edges) or (
            edges and edge_index.dtype.kind not in "iu"
        ):
            raise ValueError(
                f"edge_index has shape {list(edge_index.shape)} and dtype "
                f"{edge_index.dtype}, expected [2, {edges}] of integers"
            )
        owner = np.repeat(np.arange(len(self)), num_edges)
        outside = (edge_index < 0) | (edge_index >= num_nodes[owner])
        if outside.any():
            row, edge = np.argwhere(outside)[0]
            raise fail(
                owner[edge],
                f"edge_index names node {edge_index[row, edge]}, expected "
                f"0..{num_nodes[owner[edge]] - 1}",
            )

        x = np.asarray(self.x)
        if x.ndim != 2 or x.dtype.kind not in "iubf":
            raise ValueError(
                f"x has shape {list(x.shape)} and dtype {x.dtype}, expected [sum N, F] "
                "of integers or floats"
            )
        by_node = [("x", x), ("pos", self.pos)]
        if self.target is not None and np.asarray(self.target).ndim == 1:
            by_node.append(("target", self.target))
        elif self.target is not None and len(self.target) != len(self):
            raise ValueError(
                f"target has {len(self.target)} rows, expected {len(self)} (graphs)"
            )
        for name, values in by_node:
            if values is not None and len(values) != nodes:
                raise ValueError(
                    f"{name} has {len(values)} rows, expected {nodes} (nodes)"
                )
        tables = [("x", x, num_nodes), ("pos", self.pos, num_nodes)]

        if self.edge_attr is not None:
            edge_attr = np.asarray(self.edge_attr)
            if (
                edge_attr.ndim != 2
                or len(edge_attr) != edges
                or edge_attr.dtype.kind not in "iub"
            ):
                raise ValueError(
                    f"edge_attr has shape {list(edge_attr.shape)} and dtype "
                    f"{edge_attr.dtype}, expected [{edges}, columns] of integers"
                )
            tables.append(("edge_attr", edge_attr, num_edges))
        for name, values, counts in tables:
            if values is None or not np.size(values):
                continue
            if values.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    wrong = ~np.isfinite(values.astype(np.float32))
                expected = "a value {}, expected one that fits float32"
            else:
                wrong = values < 0
                expected = "category {}, expected 0 and above"
            if wrong.any():
                row, column = np.argwhere(wrong)[0]
                graph = np.searchsorted(np.cumsum(counts), row, side="right")
                raise fail(graph, f"{name} has {expected.format(values[row, column])}")


@dataclass
class FeaturisedRows:
    """What became of rows of SMILES.

    Attributes:
        chunk: Graphs of the rows that could be parsed; ``chunk.row`` is set.
        extras: List per name, one entry per graph.
        failures: (row, SMILES, reason) of the others.
        rows: Number of rows that went in.
    """

    chunk: Optional[GraphChunk]
    extras: dict[str, list[Any]] = field(default_factory=dict)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    rows: int = 0

    @classmethod
    def joined(cls, pieces: Sequence[FeaturisedRows]) -> FeaturisedRows:
        """Joins consecutive rows."""
        result = cls(None, rows=sum(piece.rows for piece in pieces))
        for piece in pieces:
            result.failures += piece.failures
            for name, values in piece.extras.items():
                result.extras.setdefault(name, []).extend(values)
        chunks = [piece.chunk for piece in pieces if piece.chunk is not None]
        if chunks:
            result.chunk = GraphChunk.joined(chunks)
        return result
