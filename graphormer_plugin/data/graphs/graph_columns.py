"""Columns of graphs: of some in memory, and of several stores."""

import mmap
from collections.abc import Sequence

import numpy as np

from cython_ext import bond_dtype, edge_order
from cython_ext.columns import RING_COLUMNS
from graphormer_plugin.data.columns import (
    EDGE_LABEL_COLUMNS,
    Columns,
    Level,
    column_type,
    offset_of,
    offsets_of,
    ranges_of_graphs,
)
from graphormer_plugin.data.graphs.chunk import GraphChunk
from graphormer_plugin.data.schema import FeatureSchema


def columns_of_chunk(chunk: GraphChunk, schema: FeatureSchema) -> Columns:
    """Flat columns that ``cython_ext.build_batch`` reads, edges in ``cython_ext.edge_order``.
    ValueError names a graph with features outside the vocabularies, or with other columns.
    """
    node_offset = offsets_of(chunk.num_nodes)
    edge_offset = offsets_of(chunk.num_edges)
    try:
        bond = check_features(chunk.x, chunk.edge_attr, edge_offset[-1], schema)
    except ValueError:
        for graph in range(len(chunk)):  # find its number
            nodes = slice(*node_offset[graph : graph + 2])
            edges = slice(*edge_offset[graph : graph + 2])
            attr = None if chunk.edge_attr is None else chunk.edge_attr[edges]
            try:
                check_features(chunk.x[nodes], attr, chunk.num_edges[graph], schema)
            except ValueError as error:
                raise ValueError(f"graph {graph}: {error}") from None
        raise
    return flat_columns(chunk, bond, schema)


def flat_columns(chunk: GraphChunk, bond: np.ndarray, schema: FeatureSchema) -> Columns:
    """`columns_of_chunk` of graphs that are checked, with their bond types [E]."""
    source, target = chunk.edge_index
    order = edge_order(chunk.num_edges, source, target, bond)
    columns = {
        "node_offset": offsets_of(chunk.num_nodes),
        "edge_offset": offsets_of(chunk.num_edges),
        "x": schema.as_trained(chunk.x).astype(
            np.int32 if schema.categorical else np.float32
        ),
        "edge_src": source[order].astype(np.int32),
        "edge_dst": target[order].astype(np.int32),
        "edge_bond": bond[order].astype(bond_dtype(schema.num_bond_types)),
    }
    if schema.num_edge_features:
        attr = chunk.edge_attr
        if attr is None:
            attr = np.empty((0, schema.num_edge_features))
        columns["edge_attr"] = attr[order].astype(np.float32)
    if chunk.edge_label_index is not None:
        columns |= zip(EDGE_LABEL_COLUMNS, chunk.edge_label_index)
    if chunk.num_links is not None:
        columns[Level.LINK.offset] = offsets_of(chunk.num_links)
    if chunk.node_split is not None:
        columns["node_split"] = chunk.node_split
    for name, values in chunk.attributes.items():
        of_edges = column_type(name).level is Level.EDGE
        values = _centred(values, chunk.num_nodes) if name == "pos" else values
        columns[name] = (values[order] if of_edges else values).astype(np.float32)
    return columns


def _centred(pos: np.ndarray, num_nodes: np.ndarray) -> np.ndarray:
    """Positions [sum n, 3] with the mean of each graph at 0."""
    first = offsets_of(num_nodes)[:-1]
    mean = np.add.reduceat(pos, first, dtype=np.float64) / num_nodes[:, None]
    return pos - mean.repeat(num_nodes, axis=0)


def chunk_bonds(chunk: GraphChunk, schema: FeatureSchema) -> np.ndarray:
    """Bond type of each edge ``[E]`` of a chunk."""
    attr = chunk.edge_attr
    if attr is None:
        attr = np.zeros((chunk.edge_index.shape[1], len(schema.bond_dims)), np.int64)
    return schema.bond_types(attr)


def check_features(
    x: np.ndarray, edge_attr: np.ndarray | None, num_edges: int, schema: FeatureSchema
) -> np.ndarray:
    """Joint bond type of each edge ``[E]``, once features of nodes ``[n, F]`` and edges
    ``[E, columns]`` are known to fit the vocabularies."""
    kinds = "iub" if schema.categorical else "iubf"
    width = schema.num_node_features
    if x.ndim != 2 or x.shape[1] != width or x.dtype.kind not in kinds:
        raise ValueError(
            f"x has shape {list(x.shape)} and dtype {x.dtype}, expected [nodes, {width}] "
            f"of {'integers' if schema.categorical else 'numbers'}"
        )
    if schema.categorical:
        dims = np.array(schema.node_dims)
        outside = (x < 0) | (x >= dims)
        if outside.any():
            node, column = np.argwhere(outside)[0]
            raise ValueError(
                f"node {node} has {x[node, column]} in column {column}, "
                f"expected 0..{dims[column] - 1}"
            )
    if schema.num_edge_features:
        width = 0 if edge_attr is None else edge_attr.shape[1]
        if num_edges and width != schema.num_edge_features:
            raise ValueError(
                f"edge_attr has {width} columns, expected {schema.num_edge_features} "
                "real features"
            )
        return np.ones(num_edges, np.int64)
    if edge_attr is not None and edge_attr.dtype.kind == "f":
        raise ValueError("edge_attr has real features, expected categories")
    if edge_attr is None or not num_edges:
        width = 0 if num_edges else len(schema.bond_dims)
        edge_attr = np.zeros((num_edges, width), np.int64)
    return schema.bond_types(edge_attr)


def edges_of_graph(columns: Columns, graph: int) -> np.ndarray:
    """Edges of a graph of a store, int64 [2, E]."""
    start, end = columns["edge_offset"][graph : graph + 2]
    ends = [columns[name][start:end] for name in ("edge_src", "edge_dst")]
    return np.stack(ends).astype(np.int64)


def columns_of_graphs(
    columns: Columns,
    graph_ids: np.ndarray,
    label_level: Level | None = None,
) -> Columns:
    """Flat columns of some graphs [B] of a store, in the order of their numbers.

    Args:
        label_level: what the labels are of, if ``target`` is among the columns.
    """
    taken = {}
    rows = {Level.GRAPH.offset: graph_ids}
    for name in columns.keys() - RING_COLUMNS:
        if column_type(name).is_offset:
            taken[name], rows[name] = ranges_of_graphs(columns[name], graph_ids)
    for name, column in columns.items():
        if name not in taken and name not in RING_COLUMNS:
            level = column_type(name).level or label_level
            taken[name] = np.asarray(column)[rows[offset_of(name, level)]]
    if "ring_offset" in columns:
        taken["ring_offset"], rings = ranges_of_graphs(
            columns["ring_offset"], graph_ids
        )
        taken["ring_start"], nodes = ranges_of_graphs(columns["ring_start"], rings)
        taken["ring_node"] = np.asarray(columns["ring_node"])[nodes]
    return taken


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Flat columns of the graphs of parts with the same columns, part after part."""
    if len(parts) == 1:
        return dict(parts[0])
    joined = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        if column_type(name).is_offset:
            sizes = np.concatenate([np.diff(column) for column in columns])
            joined[name] = offsets_of(sizes)
        else:
            joined[name] = np.concatenate(columns)
    return joined


def release_pages(shards: Sequence[Columns]) -> None:
    """Drop the pages of memory-mapped columns from the memory of this process.

    A read at random maps 64 KiB. Without this call, the process would grow by all of the
    store that is in the page cache.
    """
    for columns in shards:
        for column in columns.values():
            mapped = getattr(column, "_mmap", None)
            if mapped is not None:
                mapped.madvise(mmap.MADV_DONTNEED)


class ShardColumns:
    """Columns of several stores, from which batches take graphs.

    Args:
        shards: columns of each store; ``row`` is left out, see `ShardedStore.rows`.
        first: number of the first graph of each store, and of all graphs.
        label_level: what the labels are of.
    """

    def __init__(
        self,
        shards: Sequence[Columns],
        first: np.ndarray,
        label_level: Level = Level.GRAPH,
    ) -> None:
        self.shards = [
            {name: column for name, column in columns.items() if name != "row"}
            for columns in shards
        ]
        self.first = first
        self.label_level = label_level

    def __contains__(self, name: str) -> bool:
        return all(name in columns for columns in self.shards)

    def of_graphs(self, graph_ids: np.ndarray) -> Columns:
        """Columns of graphs with these numbers [B], in their order."""
        graph_ids = np.asarray(graph_ids, dtype=np.int64)
        shard = np.searchsorted(self.first, graph_ids, side="right") - 1
        parts = [
            columns_of_graphs(
                self.shards[number],
                graph_ids[shard == number] - self.first[number],
                self.label_level,
            )
            for number in np.unique(shard)
        ]
        order = np.argsort(shard, kind="stable")
        if (order[1:] > order[:-1]).all():
            return joined_columns(parts)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return columns_of_graphs(joined_columns(parts), places, self.label_level)
