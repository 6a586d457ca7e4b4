"""The flat columns that hold many graphs: their types, their checks, order of edges.

No other module checks the layout of columns. The values of a column of edges are checked
by the kernels, on a private copy, when they read it.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from cython_ext._checks import INT32_MAX, checked_array

#: Columns with one row per node, each of which gives the batch field of its name.
NODE_COLUMNS = ("x", "lap_pe", "wl_role", "pos")
EDGE_COLUMNS = ("edge_offset", "edge_src", "edge_dst")
RING_COLUMNS = ("ring_offset", "ring_start", "ring_node")
#: Types that a column may have.
DTYPES = {
    name: tuple(map(np.dtype, dtypes.split()))
    for name, dtypes in {
        "node_offset": "int64",
        "edge_offset": "int64",
        "x": "uint8 int16 int32 float32",
        "lap_pe": "float32",
        "wl_role": "int32",
        "pos": "float32",
        "edge_src": "uint8 uint16 int32",
        "edge_dst": "uint8 uint16 int32",
        "edge_bond": "uint8 uint16",
        "edge_attr": "float32",
        "ring_offset": "int64",
        "ring_start": "int64",
        "ring_node": "uint8 uint16 int32",
    }.items()
}
# Columns [sum N, F] or [sum E, C]; all others have one dimension.
MATRICES = ("x", "lap_pe", "pos", "edge_attr")


def bond_dtype(num_bond_types: int) -> np.dtype:
    """Return the smallest type that holds the bond types 0 (none) to ``num_bond_types``."""
    return np.dtype(np.uint8 if num_bond_types <= 255 else np.uint16)


def edge_order(
    num_edges: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    bond: np.ndarray | None = None,
) -> np.ndarray:
    """Sort the edges of several graphs by source, target and bond type.

    `cython_ext.build_batch` reads the edges of each graph in this order. The lowest bond
    type comes first among parallel edges.

    Args:
        num_edges: edges of each graph ``[G]``.
        source: node where each edge starts ``[sum E]``, numbered within its graph.
        target: node where each edge ends ``[sum E]``.
        bond: type of each edge ``[sum E]``, or any number that sorts as the types do.

    Returns:
        int64 ``[sum E]``: ``source[order]`` is sorted. Equal edges keep their order.

    Example:
        >>> edge_order([2, 1], np.array([1, 0, 0]), np.array([0, 1, 0]))
        array([1, 0, 2])
    """
    graph = np.repeat(np.arange(len(num_edges)), num_edges)
    keys = (target, source, graph) if bond is None else (bond, target, source, graph)
    return np.lexsort(keys)


def checked_columns(
    columns: Mapping[str, np.ndarray], names: Iterable[str]
) -> dict[str, np.ndarray]:
    """Return some columns as plain arrays; check everything except the values of rows.

    Raises:
        ValueError: if a column is missing or has a wrong type or shape, or if the
            lengths of columns and the ends of their offsets disagree.
    """
    stored = {}
    for name in names:
        if name not in columns:
            raise ValueError(f"columns has {sorted(columns)}, expected {name}")
        shape = (None, None) if name in MATRICES else (None,)
        stored[name] = checked_array(name, columns[name], DTYPES[name], shape)
    for name, array in stored.items():
        if name in ("edge_offset", "ring_offset"):
            rows = len(stored["node_offset"])
            source = "the length of node_offset"
        elif name == "ring_start":
            rows = int(stored["ring_offset"][-1]) + 1
            source = "ring_offset[-1] + 1"
        else:
            offset = "edge_offset" if name.startswith("edge") else "node_offset"
            offset = "ring_start" if name == "ring_node" else offset
            rows = int(stored[offset][-1])
            source = f"{offset}[-1]"
        if name != "node_offset" and len(array) != rows:
            raise ValueError(
                f"{name} has {len(array)} rows, expected {source} = {rows}"
            )
    return stored


def checked_graph_ids(graph_ids: Iterable[int], num_graphs: int) -> np.ndarray:
    """Return the numbers of graphs as int64 ``[B]``, each in ``0..num_graphs-1``."""
    ids = graph_ids if isinstance(graph_ids, np.ndarray) else list(graph_ids)
    array = np.asarray(ids) if len(ids) else np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"graph_ids has dtype {array.dtype} and shape {array.shape}, expected "
            "integers of shape (B,)"
        )
    outside = array[(array < 0) | (array >= num_graphs)]
    if outside.size:
        raise ValueError(
            f"graph_ids has {outside[0]}, expected graphs in [0, {num_graphs})"
        )
    return array.astype(np.int64)


def extents(
    name: str, offset: np.ndarray, ids: np.ndarray, of: str = "graph"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row and the number of rows of each graph, int64 ``[B]``."""
    start = offset[ids]
    stop = offset[ids + 1]
    end = int(offset[-1])
    count = stop - start
    # One test for four conditions: a number below 0 has the sign bit.
    if (start | count | end - stop | INT32_MAX - 1 - count).min(initial=0) < 0:
        wrong = (start < 0) | (stop < start) | (stop > end) | (count >= INT32_MAX)
        place = int(wrong.argmax())
        raise ValueError(
            f"{name} of {of} {ids[place]} runs from {start[place]} to {stop[place]}, "
            f"expected an ascending range of fewer than {INT32_MAX} within [0, {end}]"
        )
    return start, count


def ranges(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Concatenate ranges of integers.

    Args:
        start: first integer of each range, int64 ``[K]``.
        count: number of its integers, 0 or more, int64 ``[K]``.

    Returns:
        int64 ``[sum count]``.

    Example:
        >>> ranges(np.array([7, 0, 3]), np.array([2, 0, 3]))
        array([7, 8, 3, 4, 5])
    """
    rows = np.repeat(start - np.cumsum(count) + count, count)
    rows += np.arange(len(rows))
    return rows
