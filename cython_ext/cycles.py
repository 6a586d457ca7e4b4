"""Cycles without chords in stored graphs."""

from collections.abc import Mapping

import numpy as np

from cython_ext import _cycles
from cython_ext._checks import INT32_MAX, checked_integer
from cython_ext.columns import EDGE_COLUMNS, checked_columns, checked_graph_ids, extents

# Steps of the search for chordless cycles of one graph: a tenth of a second.
MAX_CYCLE_STEPS = 1 << 23


def chordless_cycles(
    columns: Mapping[str, np.ndarray],
    max_size: int,
    *,
    first: int = 0,
    last: int | None = None,
    max_steps: int = MAX_CYCLE_STEPS,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find all cycles without chords of stored graphs, up to a size.

    A chord is an edge between two nodes of a cycle that are not neighbours on it. Edges
    count in both directions; self-loops and parallel edges do not matter. The search
    takes each node in turn as the lowest node of a cycle, and walks paths without chords
    from there; it leaves out nodes that no cycle can reach and paths that cannot come
    back in time. A molecule takes microseconds. In dense graphs the number of such
    cycles, and with it the time, grows exponentially with ``max_size``.

    Args:
        columns: ``node_offset``, ``edge_offset``, ``edge_src`` and ``edge_dst`` as in
            `build_batch`.
        max_size: largest number of nodes of a cycle, 3 or more.
        first: first graph.
        last: graph after the last graph; None for all.
        max_steps: largest number of steps of the search in a graph.

    Returns:
        number of cycles of each graph, int64 ``[last - first]``; number of nodes of
        each cycle, int32; and the nodes of all cycles, int32, numbered within their
        graph, in order around each cycle.

    Raises:
        ValueError: if an argument has another type, shape or range, columns contradict
            each other, or a graph takes more than ``max_steps`` steps.

    Example:
        >>> graph = {
        ...     "node_offset": np.array([0, 4]),
        ...     "edge_offset": np.array([0, 5]),
        ...     "edge_src": np.array([0, 1, 2, 3, 0], dtype=np.int32),
        ...     "edge_dst": np.array([1, 2, 3, 0, 2], dtype=np.int32),
        ... }
        >>> count, size, node = chordless_cycles(graph, 4)
        >>> size, node  # two triangles: the square has a chord
        (array([3, 3], dtype=int32), array([0, 1, 2, 0, 2, 3], dtype=int32))
    """
    stored = checked_columns(columns, ("node_offset", *EDGE_COLUMNS))
    max_size = checked_integer("max_size", max_size, 3, INT32_MAX)
    last = len(stored["node_offset"]) - 1 if last is None else last
    ids = checked_graph_ids(range(first, last), len(stored["node_offset"]) - 1)
    offsets = [
        np.cumsum([0, *extents(name, stored[name], ids)[1]])
        for name in ("node_offset", "edge_offset")
    ]
    ends = _checked_ends(stored, first, *offsets)
    count = np.zeros(last - first, dtype=np.int64)
    wrong, sizes, nodes = _cycles.find_cycles(
        *offsets, *ends, max_size, max_steps, count
    )
    if wrong >= 0:
        raise ValueError(
            f"graph {first + wrong} takes more than {max_steps:,} steps to find its "
            f"chordless cycles of up to {max_size} nodes, expected a sparser graph or a "
            "smaller size"
        )
    return count, sizes, nodes


def _checked_ends(
    stored: Mapping[str, np.ndarray],
    first: int,
    node_offset: np.ndarray,
    edge_offset: np.ndarray,
) -> list[np.ndarray]:
    """Both ends of all edges, int64, numbered within each graph: a copy, which no other thread
    can change. Graphs begin with ``first``, offsets with 0."""
    base = int(stored["edge_offset"][first])
    edges = slice(base, base + int(edge_offset[-1]))
    size_of_edge = np.repeat(np.diff(node_offset), np.diff(edge_offset))
    ends = []
    for name in ("edge_src", "edge_dst"):
        end = stored[name][edges].astype(np.int64)
        outside = np.flatnonzero((end < 0) | (end >= size_of_edge))
        if outside.size:
            graph = first + np.searchsorted(edge_offset, outside[0], "right") - 1
            raise ValueError(
                f"{name} of graph {graph} holds {end[outside[0]]}, expected a node in "
                f"[0, {size_of_edge[outside[0]]})"
            )
        ends.append(end)
    return ends
