"""Padded batches of tensors, made from numbers of graphs.

No other code pads: models get ``node_mask`` and the padding values of ``data/batches/fields``,
everything else works with true sizes.
"""

from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cython_ext import bond_dtype, build_batch
from cython_ext.columns import ranges
from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec
from graphormer_plugin.data.batches.negatives import Negatives, edges_of
from graphormer_plugin.data.columns import (
    EDGE_LABEL_COLUMNS,
    NODE_VECTORS,
    Columns,
    Level,
    column_type,
    edge_label_index_of,
    offset_of,
    offsets_of,
    ranges_of_graphs,
    rows_of_graphs,
)
from graphormer_plugin.data.graphs.chunk import NODE_SPLITS, node_split_number
from graphormer_plugin.data.graphs.graph_columns import (
    ShardColumns,
    columns_of_graphs,
    release_pages,
)
from graphormer_plugin.data.schema import MAX_BOND_TYPES

RELEASED_AFTER = 2048  # graphs; each maps about 0.4 MB of a large store


@dataclass(eq=False)
class GraphCollator:
    """Builds the samples that fairseq hands to a model.

    One call into compiled code makes all padded arrays of a batch; they become tensors
    without a copy. No torch operator runs here, because data workers are forked and an
    OpenMP team of the parent does not survive a fork.

    Args:
        target: labels [rows of their level, C]; None: among the columns.
        level: what has a label.
        num_bond_types: largest joint bond type of the data; types start at 1.
        max_nodes: nodes of the largest graph allowed; None for no limit.
        spec: fields that the model needs.
        negatives: adds pairs of label 0 to those of the data; None: does not.
    """

    columns: Columns | ShardColumns
    target: InitVar[NDArray[np.floating] | None]
    _: KW_ONLY
    spec: BatchSpec
    num_bond_types: int
    level: Level = Level.GRAPH
    max_nodes: int | None = None
    negatives: Negatives | None = None
    unreleased: int = field(default=0, init=False)

    def __post_init__(self, target: NDArray[np.floating] | None) -> None:
        if target is not None:
            self.columns = self.columns | {"target": target}
        # Kept, because a worker that was spawned does not know the fields of a user.
        self.registered = {
            name: column for name in self.spec.fields if (column := FIELDS[name].column)
        }

    def __call__(
        self, graph_ids: NDArray[np.int64], split: str = "", epoch: int = 0
    ) -> dict[str, Any]:
        """Collate the graphs with these numbers ``[B]``. Where splits are of nodes, labels
        outside a given ``split`` count as missing. An ``epoch`` has its own `Negatives`.

        Returns:
            - ``id`` int64 ``[B]``, the numbers (``GraphStore.rows`` gives the rows of
              the source);
            - ``nsamples``, the number of graphs, and ``ntokens``, of real nodes;
            - ``net_input`` with the ``batch`` of fields;
            - ``target`` float64 ``[B, C]``, NaN where missing. fairseq's ``--fp16`` halves
              float32 tensors, and a half rounds 2,049 and turns 70,000 into infinity.
              For nodes, edges and links ``[B, N, C]``, N the most in a graph: classes int64,
              -1 where missing or padding; values float64, NaN there;
            - ``edges`` int64 ``[B, E, 2]``, -1 at padding, in an evaluation of links that
              are edges (`Negatives`);
            - float64 ``weight`` ``[B]``, ``bound`` ``[B, C]`` and `NODE_VECTORS`
              ``[B, N, 3]``, NaN where missing or padding, if the store has them.

            An empty array gives an empty dict: fairseq fills uneven shards with such
            samples, and its trainer replaces them by a dummy batch.
        """
        graph_ids = np.asarray(graph_ids, dtype=np.int64)
        if graph_ids.size == 0:
            return {}
        self.unreleased += graph_ids.size
        if self.unreleased >= RELEASED_AFTER:
            release_pages(self.shards)
            self.unreleased = 0
        columns = self.columns
        ids = graph_ids
        if isinstance(columns, ShardColumns):
            columns = columns.of_graphs(graph_ids)
            ids = np.arange(len(graph_ids))
        arrays = self._fields(columns, ids)
        labelled = columns
        rows = ids
        if self.negatives is not None:
            labelled = self.negatives.added(columns, ids, graph_ids, epoch)
            rows = np.arange(len(ids))
        if "edge_label_index" in self.spec.fields:
            padded = partial(padded_rows, labelled, self.level, ids=rows)
            ends = {name: padded(name) for name in EDGE_LABEL_COLUMNS}
            arrays["edge_label_index"] = edge_label_index_of(ends)
        offsets = columns["node_offset"]
        labels = {"target": _labels(labelled, self.level, rows, split)}
        for name in {"weight", "bound"} & columns.keys():
            labels[name] = columns[name][ids].astype(np.float64)
        if self.negatives and self.negatives.edges_are_links and not epoch:
            labels["edges"] = padded_edges(columns, ids)
        for name in columns.keys() & NODE_VECTORS:
            vectors = padded_rows(columns, Level.NODE, name, ids)
            labels[name] = vectors.astype(np.float64)
        return {
            "id": torch.tensor(graph_ids),  # a copy: they may be read-only
            "nsamples": len(graph_ids),
            "ntokens": int((offsets[ids + 1] - offsets[ids]).sum()),
            "net_input": {
                "batch": {name: torch.from_numpy(a) for name, a in arrays.items()}
            },
            **{name: torch.from_numpy(array) for name, array in labels.items()},
        }

    def _fields(self, columns: Columns, ids: NDArray[np.int64]) -> Columns:
        """The batch fields of the graphs, without the nodes of labels."""
        num_bond_types = self.num_bond_types
        if self.spec.number_edges:
            one_store = columns is self.columns
            numbers = self.edge_numbers if one_store else numbered_edges(columns)
            columns = columns | {"edge_bond": numbers[0]}
            num_bond_types = numbers[1]
        arrays = build_batch(
            columns,
            ids,
            self.spec.fields
            - {"graph_features", "edge_label_index"}
            - self.registered.keys(),
            num_bond_types=num_bond_types,
            max_nodes=self.max_nodes,
            max_dist=self.spec.max_dist,
            max_hop=self.spec.max_hop,
            path_length=self.spec.path_length,
        )
        if "graph_features" in self.spec.fields:
            arrays["graph_features"] = columns["graph_features"][ids]
        # fairseq's --fp16 halves float32, not float64. Halves of positions would be off by
        # 0.01 at 10 angstrom, and halves of features infinite above 65,504.
        for name in ("x", "pos", "edge_attr", "graph_features"):
            if name in arrays and arrays[name].dtype == np.float32:
                arrays[name] = arrays[name].astype(np.float64)
        for name, column in self.registered.items():
            arrays[name] = registered_field(columns, column, ids)
        if self.spec.number_edges:
            number_in_batch(arrays, columns["edge_offset"], ids)
        return arrays

    @property
    def shards(self) -> list[Columns]:
        """Columns of each store."""
        columns = self.columns
        return columns.shards if isinstance(columns, ShardColumns) else [columns]

    @cached_property
    def edge_numbers(self) -> tuple[NDArray[np.unsignedinteger], int]:
        """`numbered_edges` of all graphs."""
        return numbered_edges(self.columns)

    def graphs(self, graph_ids: NDArray[np.int64]) -> Columns:
        """Columns of some graphs, with their labels as ``target``."""
        if isinstance(self.columns, ShardColumns):
            return self.columns.of_graphs(graph_ids)
        return columns_of_graphs(self.columns, graph_ids, self.level)


def _labels(
    columns: Columns,
    level: Level,
    ids: NDArray[np.int64],
    split: str,
) -> NDArray:
    """The ``target`` of `GraphCollator.__call__`."""
    is_real = columns["target"].dtype.kind == "f"
    target = padded_rows(columns, level, "target", ids)
    target = target.astype(np.float64 if is_real else np.int64)
    if split in NODE_SPLITS and "node_split" in columns:
        node_splits = padded_rows(columns, level, "node_split", ids)
        outside = node_splits != node_split_number(split)
        target[outside] = column_type("target").filling(target.dtype)
    return target


def numbered_edges(
    columns: Columns,
) -> tuple[NDArray[np.unsignedinteger], int]:
    """Number of each edge within its graph ``[sum E]``, from 1, and the largest."""
    offsets = np.asarray(columns["edge_offset"])
    counts = np.diff(offsets)
    most = int(counts.max(initial=0))
    if most > MAX_BOND_TYPES:
        raise ValueError(
            f"a graph has {most} edges, expected at most {MAX_BOND_TYPES} of edges "
            "with real features"
        )
    numbers = ranges(np.ones_like(counts), counts)
    return numbers.astype(bond_dtype(most)), max(most, 1)


def number_in_batch(
    arrays: Columns, offsets: NDArray[np.int64], ids: NDArray[np.int64]
) -> None:
    """Edges that are numbered within each graph get their numbers in the batch."""
    counts = offsets[ids + 1] - offsets[ids]
    first = (np.cumsum(counts) - counts).astype(np.int32)
    for name in ("bond", "path_bond"):
        if name in arrays:
            numbers = arrays[name].astype(np.int32)
            shape = (-1, *[1] * (numbers.ndim - 1))
            numbers += np.where(numbers, first.reshape(shape), np.int32(0))
            arrays[name] = numbers


def registered_field(columns: Columns, column: str, ids: NDArray[np.int64]) -> NDArray:
    """A field that a user has registered, of some graphs; nodes of edges are numbered as in
    ``edge_index``."""
    level = column_type(column).level
    if level is not Level.SET:
        return padded_rows(columns, level, column, ids)
    offset, rows = ranges_of_graphs(columns[offset_of(column, level)], ids)
    values = columns[column][rows]
    if values.dtype.kind == "f":  # numbers of edges, not their nodes
        return values
    nodes = columns["node_offset"]
    first = offsets_of(nodes[ids + 1] - nodes[ids])[:-1]
    return values.T + np.repeat(first, np.diff(offset))


def padded_edges(columns: Columns, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges of some graphs, [B, E, 2], -1 at padding."""
    counts = columns["edge_offset"][ids + 1] - columns["edge_offset"][ids]
    padded = np.full((len(ids), counts.max(), 2), -1)
    real = np.arange(counts.max()) < counts[:, None]
    padded[real] = edges_of(columns, rows_of_graphs(columns, ids, Level.EDGE))
    return padded


def padded_rows(
    columns: Columns,
    level: Level,
    name: str,
    ids: NDArray[np.int64],
) -> NDArray:
    """A column of some graphs: [B, ...] of graphs, [B, N, ...] of nodes, edges or
    links, N the most in a graph, or [B, N, N, ...] of all pairs of nodes, with the
    `ColumnType.filling` at padding."""
    rows = columns[name][rows_of_graphs(columns, ids, level)]
    if level is Level.GRAPH:
        return rows
    offset = columns[(Level.NODE if level is Level.ALL_PAIRS else level).offset]
    sizes = offset[ids + 1] - offset[ids]
    real = np.arange(sizes.max()) < sizes[:, None]
    if level is Level.ALL_PAIRS:
        real = real[:, :, None] & real[:, None]
    filling = column_type(name).filling(rows.dtype)
    padded = np.full((*real.shape, *rows.shape[1:]), filling, rows.dtype)
    padded[real] = rows
    return padded
