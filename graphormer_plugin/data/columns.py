"""Columns of graphs in memory, as a store has them, for prediction."""

from __future__ import annotations

from typing import Optional

import numpy as np

from graphormer_plugin.data.chunk import GraphChunk
from graphormer_plugin.data.schema import FeatureSchema


def columns_of_chunk(chunk: GraphChunk, schema: FeatureSchema) -> dict[str, np.ndarray]:
    """Flat columns that ``cython_ext.build_batch`` reads.

    Args:
        chunk: At least one graph; each has at least one node.
        schema: Vocabularies that the features must keep to.

    Returns:
        ``node_offset``, ``edge_offset``, ``x``, ``edge_src``, ``edge_dst`` and
        ``edge_bond``, edges sorted by source, target and bond; ``pos`` where given.

    Raises:
        ValueError: Features outside the vocabularies, or other columns; names the
            graph.
    """
    node_offset = np.cumsum([0, *chunk.num_nodes])
    edge_offset = np.cumsum([0, *chunk.num_edges])
    try:
        bond = check_features(chunk.x, chunk.edge_attr, edge_offset[-1], schema)
    except ValueError:
        for graph in range(len(chunk)):  # which one?
            nodes = slice(*node_offset[graph : graph + 2])
            edges = slice(*edge_offset[graph : graph + 2])
            attr = None if chunk.edge_attr is None else chunk.edge_attr[edges]
            try:
                check_features(chunk.x[nodes], attr, chunk.num_edges[graph], schema)
            except ValueError as error:
                raise ValueError(f"graph {graph}: {error}") from None
        raise
    source, target = chunk.edge_index
    owner = np.repeat(np.arange(len(chunk)), chunk.num_edges)
    order = np.lexsort((bond, target, source, owner))
    columns = {
        "node_offset": node_offset,
        "edge_offset": edge_offset,
        "x": chunk.x.astype(np.int32 if schema.categorical else np.float32),
        "edge_src": source[order].astype(np.int32),
        "edge_dst": target[order].astype(np.int32),
        "edge_bond": bond[order].astype(
            np.uint8 if schema.num_bond_types <= 255 else np.uint16
        ),
    }
    if chunk.pos is not None:
        columns["pos"] = chunk.pos.astype(np.float32)
    return columns


def check_features(
    x: np.ndarray, edge_attr: Optional[np.ndarray], edges: int, schema: FeatureSchema
) -> np.ndarray:
    """Joint bond types [E] of edges, if all features are in the vocabularies.

    Args:
        x: Features of nodes [n, F].
        edge_attr: Features of edges [E, columns]; None: they carry nothing.
        edges: Their number E.
        schema: Vocabularies.

    Raises:
        ValueError: A value outside, or other columns.
    """
    if x.ndim != 2 or x.shape[1] != schema.num_node_features:
        raise ValueError(
            f"x has shape {list(x.shape)}, expected [nodes, {schema.num_node_features}]"
        )
    if schema.categorical:
        if x.dtype.kind not in "iub":
            raise ValueError(f"x has dtype {x.dtype}, expected integers")
        dims = np.array(schema.node_dims)
        outside = (x < 0) | (x >= dims)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"node {row} has {x[row, column]} in column {column}, "
                f"expected 0..{dims[column] - 1}"
            )
    if edge_attr is None or not edges:
        edge_attr = np.zeros((edges, 0 if edges else len(schema.bond_dims)), np.int64)
    return schema.bond_types(edge_attr)
