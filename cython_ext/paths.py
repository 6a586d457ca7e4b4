"""Shortest paths between all pairs of nodes of one graph."""

import numpy as np

from cython_ext import _shortest_path
from cython_ext._checks import INT32_MAX, checked_array, checked_integer

_UINT8, _UINT16, _INT32, _INT64, _FLOAT64 = map(
    np.dtype, "uint8 uint16 int32 int64 float64".split()
)
_ADJACENCY_DTYPES = tuple(map(np.dtype, "bool i1 i2 i4 i8 u1 u2 u4 u8".split()))


def shortest_paths(
    edge_index: np.ndarray, n: int, *, directed: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Compute hops and predecessors between all pairs by breadth-first search.

    Self-loops and parallel edges do not matter. Takes O(n * E) time. Small and dense
    graphs take less, because their sets of neighbours are compared as bits.

    Args:
        edge_index: int64 ``[2, E]``, C-contiguous; column ``e`` is an edge from node
            ``edge_index[0, e]`` to node ``edge_index[1, e]``.
        n: number of nodes, 0 or more.
        directed: if False, every edge can be walked both ways.

    Returns:
        ``dist`` int32 ``[n, n]``, where ``dist[i, j]`` is the number of hops from ``i``
        to ``j``, 0 on the diagonal and -1 if there is no path; and ``pred`` int32
        ``[n, n]``, where ``pred[i, j]`` is the lowest-numbered node ``u`` with an edge
        to ``j`` and ``dist[i, u] + 1 == dist[i, j]``, or -1 if there is none (no path,
        or ``i == j``).

    Raises:
        ValueError: if an argument has another type or shape, or a node number lies
            outside ``0..n-1``.

    Example:
        >>> dist, pred = shortest_paths(np.array([[0, 1], [1, 2]]), 3)
        >>> dist
        array([[ 0,  1,  2],
               [-1,  0,  1],
               [-1, -1,  0]], dtype=int32)
        >>> pred[0]
        array([-1,  0,  1], dtype=int32)
    """
    edge_index = checked_array("edge_index", edge_index, (_INT64,), (2, None))
    n = checked_integer("n", n, 0, INT32_MAX - 1)
    if not directed:
        edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    dist = np.empty((n, n), dtype=np.int32)
    pred = np.empty((n, n), dtype=np.int32)
    wrong = _shortest_path.search(edge_index, dist, pred)
    if wrong >= 0:
        source, target = edge_index[:, wrong].tolist()
        raise ValueError(
            f"edge_index[:, {wrong}] is ({source}, {target}), expected node numbers in "
            f"[0, {n})"
        )
    return dist, pred


def floyd_warshall(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute distances and predecessors between all pairs of a dense weighted graph.

    It is for weighted graphs of yours, with `extract_paths`: no batch field has weights.

    Floyd-Warshall, O(n^3). Among several shortest paths, the paths with the fewest edges
    count: ``pred[i, j]`` is the lowest ``u`` that comes just before ``j`` on any of them.
    For equal positive weights this is the rule of `shortest_paths`. For weights of 0 the
    lowest predecessor alone could lead in a circle, hence the number of edges. The rule is
    exact if sums of weights are, as for integers. Otherwise two paths are equally short if
    their rounded sums, in the order of the algorithm, are equal.

    Args:
        weights: float64 ``[n, n]``, C-contiguous; ``weights[i, j]`` is the length of
            the edge from ``i`` to ``j``, inf for none. Negative lengths are allowed. Or
            a bool or integer adjacency of 0 and 1, whose edges have length 1. The
            diagonal is ignored, except that a negative self-loop is a negative cycle.

    Returns:
        ``dist`` float64 ``[n, n]``, 0 on the diagonal and inf where there is no path;
        and ``pred`` int32 ``[n, n]``, -1 where there is no path and on the diagonal.

    Raises:
        ValueError: if ``weights`` has another type or shape, holds NaN, -inf, numbers
            whose sums overflow or integers other than 0 and 1, or has a negative cycle.
    """
    n = len(weights)
    weights = checked_array("weights", weights, (_FLOAT64, *_ADJACENCY_DTYPES), (n, n))
    if weights.dtype != _FLOAT64:
        dist = np.where(weights != 0, 1.0, np.inf)
        unusable = (weights != 0) & (weights != 1)
        expected = "0 or 1 in an adjacency; pass lengths as float64"
    else:
        dist = weights.copy()
        largest = np.finfo(np.float64).max / (2 * n + 2)
        unusable = ~(np.abs(dist) <= largest) & (dist != np.inf)
        np.fill_diagonal(unusable, unusable.diagonal() | (dist.diagonal() < 0))
        expected = "inf, or a length whose sums are finite, not negative for a loop"
    if unusable.any():
        i, j = np.argwhere(unusable)[0]
        raise ValueError(f"weights[{i}, {j}] is {weights[i, j]}, expected {expected}")
    np.fill_diagonal(dist, np.inf)
    edge = np.isfinite(dist)
    pred = np.where(edge, np.arange(n, dtype=np.int32)[:, None], np.int32(-1))
    steps = edge.astype(np.int32)
    np.fill_diagonal(dist, 0.0)
    node = _shortest_path.relax(dist, pred, steps)
    if node >= 0:
        raise ValueError(
            f"weights has a negative cycle through node {node}, expected none"
        )
    return dist, pred


def extract_paths(
    pred: np.ndarray, max_length: int, *, values: np.ndarray | None = None
) -> np.ndarray:
    """Write out the path of every pair that a predecessor matrix describes.

    Args:
        pred: int32 ``[n, n]``, C-contiguous, as from `shortest_paths` or
            `floyd_warshall`: ``pred[i, j]`` is the node before ``j`` on the path
            from ``i``, or -1 if there is no path or ``i == j``.
        max_length: entries kept of each path, from its start, 1 or more.
        values: integers ``[n, n]`` (uint8, uint16 or int32), C-contiguous, such as bond
            types. If given, a path lists ``values[u, v]`` of its steps ``u -> v``
            instead of its nodes.

    Returns:
        int32 ``[n, n, max_length]``. Without ``values``, ``[i, j]`` holds the nodes of
        the path from ``i`` to ``j``, both included (``i`` alone if ``i == j``), and -1
        past its end or where there is no path. With ``values``, it holds the value of each
        step and 0 past the end.

    Raises:
        ValueError: if an argument has another type or shape, or following ``pred`` back
            from ``j`` does not arrive at ``i``.

    Example:
        >>> dist, pred = shortest_paths(np.array([[0, 1], [1, 2]]), 3)
        >>> extract_paths(pred, 4)[0]
        array([[ 0, -1, -1, -1],
               [ 0,  1, -1, -1],
               [ 0,  1,  2, -1]], dtype=int32)
    """
    # A copy, which no other thread can change while the kernel follows it.
    n = len(pred)
    pred = checked_array("pred", pred, (_INT32,), (n, n)).copy()
    max_length = checked_integer("max_length", max_length, 1)
    outside = (pred < -1) | (pred >= n)
    np.fill_diagonal(outside, pred.diagonal() != -1)
    if outside.any():
        i, j = np.argwhere(outside)[0]
        expected = "-1 on the diagonal" if i == j else f"a node in [0, {n}) or -1"
        raise ValueError(f"pred[{i}, {j}] is {pred[i, j]}, expected {expected}")
    if values is not None:
        values = checked_array("values", values, (_UINT8, _UINT16, _INT32), (n, n))
        values = values.astype(np.int32)
    padding = -1 if values is None else 0
    paths = np.full((n, n, max_length), padding, dtype=np.int32)
    lost = _shortest_path.follow(pred, values, paths)
    if lost is not None:
        i, j = lost
        raise ValueError(
            f"pred[{i}] followed back from node {j} does not arrive at node {i}, "
            "expected a path, or -1 for none"
        )
    return paths
