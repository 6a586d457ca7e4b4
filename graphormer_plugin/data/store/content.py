"""Checks of all values in a store that another program may have changed.

Its graphs and labels pass the checks that they passed when the store was written.
"""

from collections.abc import Mapping

import numpy as np

from cython_ext import build_batch
from cython_ext.columns import checked_columns
from graphormer_plugin.data.chunk import NODE_SPLITS, GraphChunk
from graphormer_plugin.data.graph_columns import check_features
from graphormer_plugin.data.labels import checked_weights, describe_targets
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.splits import checked_splits

_GRAPHS_AT_ONCE = 1 << 16
_ENDS = ("edge_src", "edge_dst")
_NEEDED = ("node_offset", "edge_offset", "x", *_ENDS, "edge_bond")


def check_content(
    columns: Mapping[str, np.ndarray],
    splits: Mapping[str, np.ndarray],
    schema: FeatureSchema,
    targets: TargetSchema,
) -> None:
    """Checks everything that training relies on; reads every column once.

    Args:
        columns: Of a store, memory-mapped or in memory, without the splits.
        splits: Graph ids by split name.
        schema: Expected columns of nodes, edges and graphs.
        targets: Expected labels.

    Raises:
        ValueError: Something is missing or wrong.
    """
    optional = [name for name in ("pos", "edge_attr") if name in columns]
    stored = checked_columns(columns, (*_NEEDED, *optional))
    graphs = len(stored["node_offset"]) - 1
    checked_splits(splits, graphs)
    checked_weights(columns.get("weight", np.zeros(graphs)), graphs)
    bounds = columns.get("bound", np.zeros((graphs, len(targets.names)), np.int8))
    if bounds.shape != (graphs, len(targets.names)) or (abs(bounds) > 1).any():
        raise ValueError(f"bound {list(bounds.shape)} does not fit the targets")
    names = schema.graph_features
    values = columns.get("graph_features", np.empty((graphs, 0)))
    rows = columns.get("row", np.arange(graphs))
    first = stored["node_offset"][0], stored["edge_offset"][0]
    if (
        values.shape != (graphs, len(names))
        or np.isinf(values).any()
        or rows.shape != (graphs,)
        or rows.min(initial=0) < 0
        or any(first)
        or schema.categorical == (stored["x"].dtype.kind == "f")
    ):
        raise ValueError(
            f"graph_features {list(values.shape)}, rows {list(rows.shape)}, offsets "
            f"from {first} and x of {stored['x'].dtype} do not fit {graphs} graphs "
            f"with {len(names)} numbers and ranges {schema.node_dims}"
        )
    for start in range(0, graphs, _GRAPHS_AT_ONCE):
        stop = min(start + _GRAPHS_AT_ONCE, graphs)
        # The kernel checks offsets, ends, bond types and the order of edges.
        types = schema.num_bond_types
        build_batch(stored, np.arange(start, stop), ["edge_bond"], num_bond_types=types)
        counts, parts = [], {}
        for kind, names in (("node", ("x", "pos")), ("edge", ("edge_attr", *_ENDS))):
            ends = stored[f"{kind}_offset"][start : stop + 1]
            counts.append(np.diff(ends))
            rows = slice(ends[0], ends[-1])
            parts |= {name: stored[name][rows] for name in names if name in stored}
        edge_index = np.stack([parts.pop(name) for name in _ENDS])
        GraphChunk(*counts, edge_index=edge_index, **parts).check(start)
        real_edges = counts[1].sum() * (schema.num_edge_features > 0)
        check_features(parts["x"], parts.get("edge_attr"), real_edges, schema)
    parts_of_nodes = columns.get("node_split", np.zeros(len(stored["x"]), np.uint8))
    if (
        parts_of_nodes.shape != stored["x"].shape[:1]
        or ((parts_of_nodes < 0) | (parts_of_nodes > len(NODE_SPLITS))).any()
    ):
        raise ValueError(f"node_split {list(parts_of_nodes.shape)} names no splits")
    target = columns.get("target")
    level = describe_targets(target, targets, stored["node_offset"], {})[0].level
    if level != targets.level:
        raise ValueError(f"labels of each {level}, expected of each {targets.level}")
