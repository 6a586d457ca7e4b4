"""Columns of graphs in memory, as a store has them, for prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphormer_plugin.data.features import FeatureSchema
from graphormer_plugin.data.prepare import MoleculeGraph


def columns_of_graphs(
    graphs: Sequence[MoleculeGraph], schema: FeatureSchema
) -> dict[str, np.ndarray]:
    """Flat columns that ``cython_ext.build_batch`` reads.

    Args:
        graphs: At least one; each has at least one node.
        schema: Vocabularies that the features must keep to.

    Returns:
        ``node_offset``, ``edge_offset``, ``x``, ``edge_src``, ``edge_dst`` and
        ``edge_bond``, edges sorted by source, target and bond.

    Raises:
        ValueError: Features outside the vocabularies, or other columns; names the
            graph.
    """
    bonds = []
    for number, graph in enumerate(graphs):
        try:
            _check_nodes(np.asarray(graph.x), schema)
            bonds.append(schema.bond_types(graph.edge_attr))
        except ValueError as error:
            raise ValueError(f"graph {number}: {error}") from None
    num_nodes = np.array([len(graph.x) for graph in graphs], dtype=np.int64)
    num_edges = np.array([len(bond) for bond in bonds], dtype=np.int64)
    edges = np.concatenate([graph.edge_index for graph in graphs], axis=1)
    bond = np.concatenate(bonds)
    owner = np.repeat(np.arange(len(graphs)), num_edges)
    order = np.lexsort((bond, edges[1], edges[0], owner))
    x = np.concatenate([graph.x for graph in graphs])
    return {
        "node_offset": np.cumsum([0, *num_nodes]),
        "edge_offset": np.cumsum([0, *num_edges]),
        "x": x.astype(np.int32 if schema.categorical else np.float32),
        "edge_src": edges[0, order].astype(np.int32),
        "edge_dst": edges[1, order].astype(np.int32),
        "edge_bond": bond[order].astype(
            np.uint8 if schema.num_bond_types <= 255 else np.uint16
        ),
    }


def _check_nodes(x: np.ndarray, schema: FeatureSchema) -> None:
    if x.ndim != 2 or x.shape[1] != schema.num_node_features:
        raise ValueError(
            f"x has shape {list(x.shape)}, expected [nodes, {schema.num_node_features}]"
        )
    if not schema.categorical:
        return
    dims = np.array(schema.node_dims)
    outside = (x < 0) | (x >= dims)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"node {row} has {x[row, column]} in column {column}, "
            f"expected 0..{dims[column] - 1}"
        )
