"""Checks of all values in the columns of a store."""

from collections.abc import Mapping

import numpy as np

from cython_ext.columns import checked_columns, extents
from graphormer_plugin.data.labels import checked_weights
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.splits import checked_splits

_GRAPHS_AT_ONCE = 1 << 16


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
        schema: What the columns of nodes, edges and graphs should hold.
        targets: What the labels should be.

    Raises:
        ValueError: Something is missing or wrong.
    """
    needed = ("node_offset", "edge_offset", "x", "edge_src", "edge_dst", "edge_bond")
    needed += tuple(name for name in ("pos", "edge_attr") if name in columns)
    stored = checked_columns(columns, needed, {"all"})
    graphs = len(stored["node_offset"]) - 1
    for name, split in splits.items():
        if split.dtype != np.int64 or split.ndim != 1:
            raise ValueError(f"split {name} is {split.dtype} {list(split.shape)}")
    checked_splits(splits, graphs)
    if "row" in columns:
        rows = columns["row"]
        if rows.shape != (graphs,) or rows.dtype.kind not in "iu":
            raise ValueError(f"row is {rows.dtype} {list(rows.shape)}")
        _check_range("row", rows, 0, np.iinfo(np.int64).max)
    if "weight" in columns:
        checked_weights(columns["weight"], graphs)
    x = stored["x"]
    if x.shape[1] != schema.num_node_features or schema.categorical != (
        x.dtype.kind in "iu"
    ):
        raise ValueError(
            f"x is {x.dtype} with {x.shape[1]} columns, the schema has "
            f"{schema.num_node_features} and ranges {schema.node_dims}"
        )
    width = stored["edge_attr"].shape[1] if "edge_attr" in stored else 0
    if width != schema.num_edge_features:
        raise ValueError(
            f"edge_attr has {width} columns, the schema has {schema.num_edge_features}"
        )
    names = schema.graph_features
    if names or "graph_features" in columns:
        values = columns.get("graph_features", np.empty(0))
        if values.shape != (graphs, len(names)) or np.isinf(values).any():
            raise ValueError(
                f"graph_features is {values.dtype} {list(values.shape)}, expected "
                f"[{graphs}, {len(names)}] finite numbers or NaN"
            )
    for first in range(0, graphs, _GRAPHS_AT_ONCE):
        _check_graphs(
            stored, np.arange(first, min(first + _GRAPHS_AT_ONCE, graphs)), schema
        )
    if "target" in columns:
        _check_target(columns["target"], graphs, len(x), targets)
    elif targets.names:
        raise ValueError(f"no labels are stored for target {targets.names[0]!r}")


def _check_graphs(
    columns: Mapping[str, np.ndarray], graphs: np.ndarray, schema: FeatureSchema
) -> None:
    """Checks nodes and edges of consecutive graphs."""
    ends = {}
    for name in ("node_offset", "edge_offset"):
        start, count = extents(name, columns[name], graphs)
        ends[name] = count, slice(start[0], start[-1] + count[-1])
    num_nodes, nodes = ends["node_offset"]
    num_edges, edges = ends["edge_offset"]
    if num_nodes.min() < 1:
        raise ValueError(f"graph {graphs[num_nodes.argmin()]} has no nodes")
    x = columns["x"][nodes]
    for column, dim in enumerate(schema.node_dims or ()):
        _check_range(f"x column {column}", x[:, column], 0, dim - 1)
    for name, rows in (("x", nodes), ("pos", nodes), ("edge_attr", edges)):
        if name in columns and not np.isfinite(columns[name][rows]).all():
            raise ValueError(f"{name} has a value that is not finite")
    graph = np.repeat(np.arange(len(graphs)), num_edges)
    later = graph[1:] > graph[:-1]  # each edge than the one before
    equal = graph[1:] == graph[:-1]
    for name, low, limit in (
        ("edge_src", 0, num_nodes[graph]),
        ("edge_dst", 0, num_nodes[graph]),
        ("edge_bond", 1, np.full(len(graph), schema.num_bond_types + 1)),
    ):
        values = columns[name][edges].astype(np.int64)
        wrong = (values < low) | (values >= limit)
        if wrong.any():
            place = wrong.argmax()
            raise ValueError(
                f"{name} of graph {graphs[graph[place]]} has {values[place]}, expected "
                f"{low}..{limit[place] - 1}"
            )
        later |= equal & (values[1:] > values[:-1])
        equal &= values[1:] == values[:-1]
    if not (later | equal).all():
        place = graph[(later | equal).argmin()]
        raise ValueError(f"edges of graph {graphs[place]} are out of order")


def _check_target(
    target: np.ndarray, graphs: int, nodes: int, schema: TargetSchema
) -> None:
    """Checks labels of graphs or nodes."""
    shape, kind = (graphs, len(schema.names)), "f"
    if schema.level == "node":
        shape, kind = (nodes,), "f" if schema.kind == "regression" else "i"
    if target.shape != shape or target.dtype.kind != kind:
        raise ValueError(
            f"target is {target.dtype} {list(target.shape)}, expected {list(shape)} "
            f"of {schema.level}s"
        )
    if kind == "i":
        _check_range(
            "target", target, np.iinfo(target.dtype).min, schema.num_classes - 1
        )
        return
    if np.isinf(target).any():
        raise ValueError("target has a value that is infinite")
    if schema.kind != "regression":
        present = target[~np.isnan(target)]
        last = schema.num_classes - 1 if schema.kind == "multiclass" else 1
        _check_range("target", present, 0, last)
        if (present != np.floor(present)).any():
            raise ValueError("target has a class that is not an integer")


def _check_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    if values.size and not (values.min() >= low and values.max() <= high):
        raise ValueError(
            f"{name} has {values.min()} to {values.max()}, expected {low}..{high}"
        )
