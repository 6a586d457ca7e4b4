"""Shortest paths and padded batches of graphs, computed in C.

This package knows NumPy only. Every function checks its arguments (``ValueError``
with name, received and expected), allocates its results and leaves the loops to a
kernel that runs without the GIL: ``_shortest_path.pyx`` and ``_batch.pyx``, or
``_fallback.py`` (the same results, slower) where they could not be compiled. Set the
environment variable ``GRAPHORMER_NO_EXT=1`` to run the fallback on purpose.

Two rules hold everywhere:

- Node 0 is a node like any other; "none" is -1 among nodes and 0 among bond types.
- Ties between equally short paths are broken by the predecessor: the path to ``j``
  arrives from the lowest-numbered node that lies on any shortest path to ``j``.
"""

import os
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Optional

import numpy as np

from cython_ext import _fallback
from cython_ext._checks import checked_array, checked_integer, checked_square
from cython_ext._job import (
    BAD_BOND,
    BAD_DEGREE,
    BAD_HOPS,
    BAD_ORDER,
    BAD_SOURCE,
    BAD_TARGET,
    BatchJob,
)
from cython_ext.codes import (
    FAR,
    MAX_HOPS,
    RELATION_FAR,
    RELATION_SELF,
    RELATION_UNREACHABLE,
    RELATION_VIRTUAL,
    UNREACHABLE,
    bond_relation,
    hop_relation,
    num_relations,
)

__all__ = [
    "COMPILED",
    "FAR",
    "FIELDS",
    "MAX_CYCLE_STEPS",
    "UNREACHABLE",
    "build_batch",
    "chordless_cycles",
    "extract_paths",
    "floyd_warshall",
    "shortest_paths",
]

# Steps of the search for chordless cycles of one graph: a tenth of a second.
MAX_CYCLE_STEPS = 1 << 23

_BOND_FIELDS = frozenset({"bond", "path_bond", "relation_index", "edge_bond"})
_EDGE_FIELDS = _BOND_FIELDS | {"dist", "in_degree", "out_degree", "edge_index"}
_NODE_COLUMNS = ("x", "lap_pe", "wl_role", "pos")
#: Names that :func:`build_batch` knows.
FIELDS = _EDGE_FIELDS | {*_NODE_COLUMNS, "node_mask", "node_graph", "ring"}
FIELDS |= {"relations"}

_INT32_MAX = int(np.iinfo(np.int32).max)
_BOOL, _INT64, _FLOAT32, _FLOAT64, _INT32, _INT16, _UINT16, _UINT8 = map(
    np.dtype, "bool int64 float32 float64 int32 int16 uint16 uint8".split()
)
_STORED_DTYPES = {
    "node_offset": (_INT64,),
    "edge_offset": (_INT64,),
    "x": (_UINT8, _INT16, _INT32, _FLOAT32),
    "lap_pe": (_FLOAT32,),
    "wl_role": (_INT32,),
    "pos": (_FLOAT32,),
    "edge_src": (_UINT8, _UINT16, _INT32),
    "edge_dst": (_UINT8, _UINT16, _INT32),
    "edge_bond": (_UINT8, _UINT16),
    "ring_offset": (_INT64,),
    "ring_start": (_INT64,),
    "ring_node": (_UINT8, _UINT16, _INT32),
}

COMPILED = False  # whether the compiled kernels serve the functions below
_reason = "GRAPHORMER_NO_EXT is set"
if os.environ.get("GRAPHORMER_NO_EXT", "0") in ("", "0"):
    try:
        _batch = import_module("cython_ext._batch")
        _cycles = import_module("cython_ext._cycles")
        _shortest_path = import_module("cython_ext._shortest_path")
        COMPILED = True
    except ImportError as error:
        _reason = f"{error}; install a C compiler and reinstall"
if not COMPILED:
    _batch = _cycles = _shortest_path = _fallback
    warnings.warn(
        f"cython_ext runs on NumPy, about 200 times slower than compiled ({_reason})",
        RuntimeWarning,
        stacklevel=2,
    )


def shortest_paths(
    edge_index: np.ndarray, n: int, *, directed: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Computes hops and predecessors between all pairs by breadth-first search.

    Self-loops and parallel edges do not matter. Takes O(n * E) time, and less than that
    for graphs that are small or dense, whose neighbours are compared as sets of bits.

    Args:
        edge_index: int64 ``[2, E]``, C-contiguous; column ``e`` is an edge from node
            ``edge_index[0, e]`` to node ``edge_index[1, e]``.
        n: Number of nodes, 0 or more.
        directed: If False, every edge can be walked both ways.

    Returns:
        ``dist`` int32 ``[n, n]``, where ``dist[i, j]`` is the number of hops from ``i``
        to ``j``, 0 on the diagonal and -1 if there is no path; and ``pred`` int32
        ``[n, n]``, where ``pred[i, j]`` is the lowest-numbered node ``u`` with an edge
        to ``j`` and ``dist[i, u] + 1 == dist[i, j]``, or -1 if there is none (no path,
        or ``i == j``).

    Raises:
        ValueError: If an argument has another type or shape, or a node number lies
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
    edge_index = checked_array("edge_index", edge_index, (_INT64,), 2)
    if edge_index.shape[0] != 2:
        raise ValueError(f"edge_index has shape {edge_index.shape}, expected (2, E)")
    n = checked_integer("n", n, 0, _INT32_MAX - 1)
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
    """Computes distances and predecessors between all pairs of a dense weighted graph.

    Floyd-Warshall, O(n^3). Of several shortest paths those with the fewest edges count,
    and of these the one with the lowest predecessor: ``pred[i, j]`` is the lowest ``u``
    that comes just before ``j`` on any of them. For equal positive weights this is the
    rule of :func:`shortest_paths`; counting edges makes the rule hold for weights of 0
    as well, where the lowest predecessor alone could lead in a circle. The rule is
    exact where sums of weights are (integers, for instance); otherwise paths count as
    equally short if their rounded sums, in the order of the algorithm, are equal.

    Args:
        weights: float64 ``[n, n]``, C-contiguous; ``weights[i, j]`` is the length of
            the edge from ``i`` to ``j``, inf for none. Negative lengths are allowed. Or
            a bool or integer adjacency of 0 and 1, whose edges have length 1. The
            diagonal is ignored, except that a negative self-loop is a negative cycle.

    Returns:
        ``dist`` float64 ``[n, n]``, 0 on the diagonal and inf where there is no path;
        and ``pred`` int32 ``[n, n]``, -1 where there is no path and on the diagonal.

    Raises:
        ValueError: If ``weights`` has another type or shape, holds NaN, -inf, numbers
            whose sums overflow or integers other than 0 and 1, or has a negative cycle.
    """
    integers = tuple(map(np.dtype, "bool i1 i2 i4 i8 u1 u2 u4 u8".split()))
    weights = checked_square("weights", weights, (_FLOAT64, *integers))
    n = len(weights)
    if weights.dtype != _FLOAT64:
        other = (weights != 0) & (weights != 1)
        if other.any():
            i, j = np.unravel_index(other.argmax(), other.shape)
            raise ValueError(
                f"weights[{i}, {j}] is {weights[i, j]}, expected 0 or 1 in an "
                f"adjacency of dtype {weights.dtype}; pass lengths as float64"
            )
        dist = np.where(weights != 0, 1.0, np.inf)
    else:
        dist = weights.copy()
        unusable = np.isnan(dist) | (dist == -np.inf)
        if unusable.any():
            i, j = np.unravel_index(unusable.argmax(), unusable.shape)
            raise ValueError(
                f"weights[{i}, {j}] is {dist[i, j]}, expected a number or inf"
            )
        longest = np.abs(dist, where=np.isfinite(dist), out=np.zeros_like(dist)).max(
            initial=0.0
        )
        if longest > np.finfo(np.float64).max / (2 * n + 2):
            raise ValueError(
                f"weights has a length of {longest}, expected sums of {n} lengths to "
                "be finite"
            )
    loops = dist.diagonal()
    if (loops < 0).any():
        node = int((loops < 0).argmax())
        raise ValueError(
            f"weights[{node}, {node}] is {loops[node]}, a negative cycle; expected none"
        )
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
    pred: np.ndarray, max_length: int, *, values: Optional[np.ndarray] = None
) -> np.ndarray:
    """Writes out the path of every pair that a predecessor matrix describes.

    Args:
        pred: int32 ``[n, n]``, C-contiguous, as from :func:`shortest_paths` or
            :func:`floyd_warshall`: ``pred[i, j]`` is the node before ``j`` on the path
            from ``i``, or -1 if there is no path or ``i == j``.
        max_length: Entries kept of each path, from its start, 1 or more.
        values: Integers ``[n, n]`` (uint8, uint16 or int32), C-contiguous, such as bond
            types. If given, a path lists ``values[u, v]`` of its steps ``u -> v``
            instead of its nodes.

    Returns:
        int32 ``[n, n, max_length]``. Without ``values``, ``[i, j]`` holds the nodes of
        the path from ``i`` to ``j``, both included (``i`` alone if ``i == j``), and -1
        past its end or where there is no path. With ``values``, it holds one value per
        step and 0 past the end.

    Raises:
        ValueError: If an argument has another type or shape, or following ``pred`` back
            from ``j`` does not arrive at ``i``.

    Example:
        >>> dist, pred = shortest_paths(np.array([[0, 1], [1, 2]]), 3)
        >>> extract_paths(pred, 4)[0]
        array([[ 0, -1, -1, -1],
               [ 0,  1, -1, -1],
               [ 0,  1,  2, -1]], dtype=int32)
    """
    # Copied, so that a thread that changes it meanwhile cannot lead the kernel astray.
    pred = checked_square("pred", pred, (_INT32,)).copy()
    n = len(pred)
    max_length = checked_integer("max_length", max_length, 1)
    outside = (pred < -1) | (pred >= n)
    np.fill_diagonal(outside, pred.diagonal() != -1)
    if outside.any():
        i, j = np.unravel_index(outside.argmax(), outside.shape)
        expected = "-1 on the diagonal" if i == j else f"a node in [0, {n}) or -1"
        raise ValueError(f"pred[{i}, {j}] is {pred[i, j]}, expected {expected}")
    if values is not None:
        values = checked_square("values", values, (_UINT8, _UINT16, _INT32))
        if values.shape != pred.shape:
            raise ValueError(
                f"values has shape {values.shape}, expected that of pred {pred.shape}"
            )
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


def chordless_cycles(
    columns: Mapping[str, np.ndarray],
    max_size: int,
    *,
    first: int = 0,
    last: Optional[int] = None,
    max_steps: int = MAX_CYCLE_STEPS,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds all cycles without chords of stored graphs, up to a size.

    A chord is an edge between two nodes of a cycle that are not neighbours on it, so
    that the cycle is what its nodes and all edges between them make. Edges count in
    both directions; self-loops and parallel edges do not matter. The search takes
    nodes as lowest of a cycle, one after another, and walks paths without chords from
    there; nodes that no cycle can reach, and paths that cannot come back in time, are
    left out. Molecules take microseconds; the number of such cycles, and with it the
    time, grows exponentially with ``max_size`` in dense graphs.

    Args:
        columns: ``node_offset``, ``edge_offset``, ``edge_src`` and ``edge_dst`` as in
            :func:`build_batch`.
        max_size: Most nodes of a cycle, 3 or more.
        first: First graph.
        last: Graph after the last one; ``None`` for all.
        max_steps: Most steps of the search in one graph.

    Returns:
        Number of cycles of each graph, int64 ``[last - first]``; number of nodes of
        each cycle, int32; and the nodes of all cycles, int32, numbered within their
        graph, in order around each cycle.

    Raises:
        ValueError: If an argument has another type, shape or range, columns contradict
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
        (array([3, 3], dtype=int32), array([0, 1, 2, 0, 3, 2], dtype=int32))
    """
    stored = _checked_columns(columns, frozenset({"edge_index"}))
    max_size = checked_integer("max_size", max_size, 3, _INT32_MAX)
    num_graphs = len(stored["node_offset"]) - 1
    last = num_graphs if last is None else last
    first = checked_integer("first", first, 0, num_graphs)
    last = checked_integer("last", last, first, num_graphs)
    max_steps = checked_integer("max_steps", max_steps, 1)
    ids = np.arange(first, last)
    extents = (_extents(n, stored[n], ids) for n in ("node_offset", "edge_offset"))
    offsets = [np.cumsum([0, *count]) for _, count in extents]
    # In the numbering of each graph; copied, so that nobody changes them meanwhile.
    base = int(stored["edge_offset"][first])
    edges = slice(base, base + int(offsets[1][-1]))
    ends = [stored[name][edges].astype(np.int64) for name in ("edge_src", "edge_dst")]
    size_of_edge = np.repeat(np.diff(offsets[0]), np.diff(offsets[1]))
    for name, end in zip(("edge_src", "edge_dst"), ends):
        wrong = (end < 0) | (end >= size_of_edge)
        if wrong.any():
            place = int(wrong.argmax())
            graph = first + int(np.searchsorted(offsets[1], place, "right")) - 1
            raise ValueError(
                f"{name} of graph {graph} holds {end[place]}, expected a node in "
                f"[0, {size_of_edge[place]})"
            )
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


def build_batch(
    columns: Mapping[str, np.ndarray],
    ids: Iterable[int],
    fields: Iterable[str],
    *,
    num_bond_types: int,
    max_nodes: Optional[int] = None,
    max_dist: Optional[int] = None,
    max_hop: Optional[int] = None,
    path_length: int = 0,
    num_threads: int = 1,
) -> dict[str, np.ndarray]:
    """Builds the padded arrays of a batch of stored graphs in one call.

    Below, ``B = len(ids)``, ``N`` is the number of nodes of the largest of these graphs
    (0 for an empty batch), and ``[i, j]`` concerns the way from node ``i`` to node
    ``j``. Padding is 0 unless stated otherwise. A bond is of type uint8, or uint16 if
    ``num_bond_types > 255``.

    ===================  ======================  ====================================
    field                shape and type          meaning
    ===================  ======================  ====================================
    ``x``                [B, N, F] int16         node columns (int32 or float32 if they
                                                 are stored so)
    ``lap_pe``, ``pos``  [B, N, k] float32       stored node columns, padded
    ``wl_role``          [B, N] int32            stored node column, padded
    ``node_mask``        [B, N] bool             True for a real node
    ``in_degree``,       [B, N] int16            distinct neighbours: parallel edges
    ``out_degree``                               count once, so does a self-loop
    ``dist``             [B, N, N] uint8         hops, ``FAR``, or ``UNREACHABLE`` (also
                                                 the padding)
    ``bond``             [B, N, N] bond          type of the edge, the lowest of
                                                 parallel ones; 0 for none and on the
                                                 diagonal
    ``path_bond``        [B, N, N, L] bond       types of the first ``L`` steps of the
                                                 shortest path, 0 past its end
    ``relation_index``         [B, N, N] uint8         place of the pair's joint code in
                                                 ``relations`` (uint16 if there are
                                                 more than 256 codes)
    ``relations``    [R] int64               joint codes that occur in this batch,
                                                 ascending, code 0 always the first
    ``ring``             [B, N, N] uint8         1 where the two nodes, or the one node,
                                                 are in a stored set together
    ``edge_index``       [2, sum E] int64        edges, into the nodes of the batch
                                                 without padding
    ``edge_bond``        [sum E] bond            their types
    ``node_graph``       [sum N] int64           place in the batch of every node
    ===================  ======================  ====================================

    A joint code names the distance and the bond of a pair: 0 is the virtual node (and
    padding), 1 the node itself, 2 unreachable, 3 farther than ``max_hop`` hops,
    ``h + 2`` is ``h`` hops for ``2 <= h <= max_hop``, and ``max_hop + 2 + b`` is a
    direct edge of bond type ``b``. So there are ``max_hop + 3 + num_bond_types`` codes.

    Args:
        columns: C-contiguous arrays, such as a store's memory maps, which may be
            read-only: ``node_offset`` and ``edge_offset`` int64 ``[G + 1]``; ``x``
            uint8, int16, int32 or float32 ``[sum N, F]``; ``edge_src`` and ``edge_dst``
            uint8, uint16 or int32 ``[sum E]``, numbered within each graph;
            ``edge_bond`` uint8 or uint16 ``[sum E]``, from 1; the edges of a graph
            sorted by source, target and bond; ``lap_pe``, ``pos`` float32
            ``[sum N, k]``; ``wl_role`` int32 ``[sum N]``; ``ring_offset`` int64
            ``[G + 1]``, the sets of each graph, ``ring_start`` int64 ``[S + 1]``, the
            rows of each set, and ``ring_node`` uint8, uint16 or int32, numbered within
            each graph. Only those that ``fields`` need must be there.
        ids: Numbers of the graphs, each in ``0..G-1``; any order, repeats allowed.
        fields: Names from the table. Either of ``relation_index`` and ``relations`` gives
            both.
        num_bond_types: Largest bond type, in 0..65535.
        max_nodes: Most nodes that a graph may have.
        max_dist: Distances above it become ``FAR`` in ``dist``; in 1..253.
        max_hop: Largest number of hops with a joint code of its own; in 1..253. Needed
            for ``relation_index``.
        path_length: ``L``, needed for ``path_bond``.
        num_threads: Threads that share the graphs of the batch. They live for this call
            only, so that it is safe before and after a fork.

    Returns:
        The fields asked for.

    Raises:
        ValueError: If an argument has another type, shape or range; if a graph has more
            than ``max_nodes`` nodes, a path of over 253 hops with ``dist`` asked for
            and no ``max_dist``, or over 32767 neighbours of one node with a degree
            asked for; if there are over 65536 joint codes; or if the columns contradict
            each other (a node number outside its graph, descending offsets, edges out
            of order). The message names the graph and the number.
    """
    fields = _checked_fields(fields)
    num_bond_types = checked_integer("num_bond_types", num_bond_types, 0, 65535)
    if max_nodes is not None:
        max_nodes = checked_integer("max_nodes", max_nodes, 0)
    if max_dist is not None:
        max_dist = checked_integer("max_dist", max_dist, 1, MAX_HOPS)
    if max_hop is not None:
        max_hop = checked_integer("max_hop", max_hop, 1, MAX_HOPS)
    path_length = checked_integer("path_length", path_length, 0, 65535)
    num_threads = checked_integer("num_threads", num_threads, 1)
    if "relation_index" in fields and max_hop is None:
        raise ValueError(
            "max_hop is None, expected an integer for field relation_index"
        )
    if "path_bond" in fields and path_length == 0:
        raise ValueError("path_length is 0, expected at least 1 for field path_bond")

    stored = _checked_columns(columns, fields)
    ids = _checked_ids(ids, len(stored["node_offset"]) - 1)
    job = _plan(stored, ids, max_nodes)
    _allocate_node_fields(job, stored, fields)
    if fields & _EDGE_FIELDS:
        job.edge_src, job.edge_dst = stored["edge_src"], stored["edge_dst"]
        job.edge_bond = stored.get("edge_bond")
        job.num_bond_types = num_bond_types
        _allocate_edge_fields(job, fields, max_dist, max_hop, path_length)
    seen = _run(job, ids, num_threads)

    out = job.out
    if "ring" in fields:
        out["ring"] = _shared_sets(stored, ids, job.node_count, job.width)
    if "node_graph" in fields:
        out["node_graph"] = np.repeat(np.arange(len(ids)), job.node_count)
    if "relation_index" in fields:
        # Padding is code 0, the virtual node is added by the model: always there.
        seen[RELATION_VIRTUAL] = 1
        out["relations"] = np.flatnonzero(seen)
        position = np.cumsum(seen, dtype=np.int64) - 1
        _batch.replace(
            out["relation_index"].reshape(-1),
            position.astype(out["relation_index"].dtype),
        )
    if "wl_role" in fields:
        out["wl_role"] = out["wl_role"][..., 0]
    return out


def _checked_fields(fields: Iterable[str]) -> frozenset[str]:
    """Returns the names as a set; ``relations`` implies ``relation_index``."""
    if isinstance(fields, str):
        raise ValueError(f"fields is the string {fields!r}, expected several names")
    try:
        names = frozenset(fields)
    except TypeError:
        raise ValueError(f"fields is {fields!r}, expected several names") from None
    unknown = names - FIELDS
    if unknown:
        raise ValueError(
            f"fields has {sorted(map(repr, unknown))}, expected names among "
            f"{sorted(FIELDS)}"
        )
    if "relations" in names:
        names = names - {"relations"} | {"relation_index"}
    return names


def _checked_columns(
    columns: Mapping[str, np.ndarray], fields: frozenset[str]
) -> dict[str, np.ndarray]:
    """Returns the columns that the fields need, checked for all but their contents."""
    if not isinstance(columns, Mapping):
        raise ValueError(
            f"columns is a {type(columns).__name__}, expected a mapping of names to "
            "arrays"
        )
    names = ["node_offset"]
    names += [name for name in _NODE_COLUMNS if name in fields]
    if fields & _EDGE_FIELDS:
        names += ["edge_offset", "edge_src", "edge_dst"]
    if fields & _BOND_FIELDS:
        names += ["edge_bond"]
    if "ring" in fields:
        names += ["ring_offset", "ring_start", "ring_node"]
    stored = {}
    for name in names:
        if name not in columns:
            raise ValueError(
                f"columns has {sorted(map(str, columns))}, expected {name} for fields "
                f"{sorted(fields)}"
            )
        ndim = 2 if name in ("x", "lap_pe", "pos") else 1
        stored[name] = checked_array(name, columns[name], _STORED_DTYPES[name], ndim)
        if ndim == 2 and stored[name].shape[1] == 0:
            raise ValueError(
                f"{name} has shape {stored[name].shape}, expected at least one column"
            )
    for name in names:
        if name.endswith(("_offset", "_start")):
            if len(stored[name]) == 0:
                raise ValueError(
                    f"{name} is empty, expected one entry per graph and one"
                )
        else:
            offset = "edge_offset" if name.startswith("edge") else "node_offset"
            offset = "ring_start" if name == "ring_node" else offset
            if len(stored[name]) != stored[offset][-1]:
                raise ValueError(
                    f"{name} has {len(stored[name])} rows, expected {offset}[-1] = "
                    f"{stored[offset][-1]}"
                )
    for name in ("edge_offset", "ring_offset"):
        if name in stored and len(stored[name]) != len(stored["node_offset"]):
            raise ValueError(
                f"{name} has {len(stored[name])} entries, expected as many as "
                f"node_offset, {len(stored['node_offset'])}"
            )
    if "ring_offset" in stored:
        if stored["ring_offset"][-1] != len(stored["ring_start"]) - 1:
            raise ValueError(
                f"ring_start has {len(stored['ring_start'])} entries, expected "
                f"ring_offset[-1] + 1 = {stored['ring_offset'][-1] + 1}"
            )
    return stored


def _checked_ids(ids: Iterable[int], num_graphs: int) -> np.ndarray:
    """Returns the ids as int64 ``[B]``, each in ``0..num_graphs-1``."""
    try:
        array = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    except (TypeError, ValueError):
        raise ValueError(
            f"ids is a {type(ids).__name__}, expected a sequence of integers"
        ) from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"ids has dtype {array.dtype} and shape {array.shape}, expected integers "
            "of shape (B,)"
        )
    outside = (array < 0) | (array >= num_graphs)
    if outside.any():
        place = int(outside.argmax())
        raise ValueError(
            f"ids[{place}] is {array[place]}, expected a graph in [0, {num_graphs})"
        )
    return array.astype(np.int64)


def _plan(
    stored: dict[str, np.ndarray], ids: np.ndarray, max_nodes: Optional[int]
) -> BatchJob:
    """Looks up where the graphs of the batch lie and how large they are."""
    node_start, node_count = _extents("node_offset", stored["node_offset"], ids)
    width = int(node_count.max(initial=0))
    if max_nodes is not None and width > max_nodes:
        place = int((node_count > max_nodes).argmax())
        raise ValueError(
            f"graph {ids[place]} has {node_count[place]} nodes, expected at most "
            f"max_nodes = {max_nodes}"
        )
    if "edge_offset" in stored:
        edge_start, edge_count = _extents("edge_offset", stored["edge_offset"], ids)
    else:
        edge_start = edge_count = np.zeros(len(ids), dtype=np.int64)
    return BatchJob(width, node_start, node_count, edge_start, edge_count)


def _extents(
    name: str, offset: np.ndarray, ids: np.ndarray, of: str = "graph"
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first row and the number of rows of each graph, int64 ``[B]``."""
    start, stop, rows = offset[ids], offset[ids + 1], int(offset[-1])
    count = stop - start
    # One test for all that should not be negative: no number has the sign bit.
    if (start | count | rows - stop | _INT32_MAX - 1 - count).min(initial=0) < 0:
        wrong = (start < 0) | (stop < start) | (stop > rows) | (count >= _INT32_MAX)
        place = int(wrong.argmax())
        raise ValueError(
            f"{name} of {of} {ids[place]} runs from {start[place]} to {stop[place]}, "
            f"expected an ascending range of fewer than {_INT32_MAX} within [0, {rows}]"
        )
    return start, count


def _allocate_node_fields(
    job: BatchJob, stored: dict[str, np.ndarray], fields: frozenset[str]
) -> None:
    graphs, out = len(job.node_count), job.out
    for name in _NODE_COLUMNS:
        if name in fields:
            column = stored[name]
            if column.ndim == 1:
                column = column[:, None]
            dtype = _INT16 if column.dtype == _UINT8 else column.dtype
            out[name] = np.empty((graphs, job.width, column.shape[1]), dtype=dtype)
            job.node_columns.append((column, out[name]))
    if "node_mask" in fields:
        out["node_mask"] = np.empty((graphs, job.width), dtype=bool)


def _allocate_edge_fields(
    job: BatchJob,
    fields: frozenset[str],
    max_dist: Optional[int],
    max_hop: Optional[int],
    path_length: int,
) -> None:
    graphs, width, out = len(job.node_count), job.width, job.out
    bond_dtype = _UINT8 if job.num_bond_types <= 255 else _UINT16
    pairs = (graphs, width, width)
    hops = np.arange(width + 1)
    for name in ("in_degree", "out_degree"):
        if name in fields:
            out[name] = np.empty((graphs, width), dtype=np.int16)
    if "bond" in fields:
        out["bond"] = np.empty(pairs, dtype=bond_dtype)
    if "path_bond" in fields:
        out["path_bond"] = np.empty((*pairs, path_length), dtype=bond_dtype)
    if "edge_index" in fields or "edge_bond" in fields:
        job.node_base = np.cumsum(job.node_count) - job.node_count
        job.edge_base = np.cumsum(job.edge_count) - job.edge_count
        num_edges = int(job.edge_count.sum())
    if "edge_index" in fields:
        out["edge_index"] = np.empty((2, num_edges), dtype=np.int64)
    if "edge_bond" in fields:
        out["edge_bond"] = np.empty(num_edges, dtype=bond_dtype)
    if "dist" in fields:
        out["dist"] = np.empty(pairs, dtype=np.uint8)
        if max_dist is None:
            job.hop_limit = MAX_HOPS
        farthest = MAX_HOPS if max_dist is None else max_dist
        job.dist_of_hop = np.where(hops > farthest, FAR, hops).astype(np.uint16)
        job.dist_of_hop[width] = UNREACHABLE
    if "relation_index" in fields:
        num_codes = num_relations(max_hop, job.num_bond_types)
        if num_codes > 65536:
            raise ValueError(
                f"num_bond_types {job.num_bond_types} and max_hop {max_hop} make "
                f"{num_codes} joint codes, expected at most 65536 for field relation_index"
            )
        out["relation_index"] = np.empty(
            pairs, dtype=np.uint8 if num_codes <= 256 else np.uint16
        )
        codes = np.where(hops > max_hop, RELATION_FAR, hop_relation(hops)).astype(
            np.uint16
        )
        codes[0] = RELATION_SELF
        codes[width] = RELATION_UNREACHABLE
        job.relation_of_hop, job.bond_base = codes, bond_relation(0, max_hop)


def _run(job: BatchJob, ids: np.ndarray, num_threads: int) -> np.ndarray:
    """Runs the kernel; returns a uint8 flag for each joint code that was written."""
    graphs = len(job.node_count)
    num_codes = job.bond_base + 1 + job.num_bond_types
    num_threads = min(num_threads, graphs)
    if num_threads <= 1:
        seen = np.zeros(num_codes, dtype=np.uint8)
        error = _batch.fill(job, 0, graphs, seen)
    else:
        # Threads of a pool kept between calls would be missing after a fork.
        work = np.cumsum(job.node_count**2 + job.edge_count)
        cuts = np.searchsorted(work, np.arange(1, num_threads) * work[-1] / num_threads)
        ranges = list(zip([0, *cuts.tolist()], [*cuts.tolist(), graphs]))
        flags = np.zeros((num_threads, num_codes), dtype=np.uint8)
        with ThreadPoolExecutor(num_threads) as pool:
            errors = pool.map(
                lambda part, row: _batch.fill(job, *part, row), ranges, flags
            )
            error = next((error for error in errors if error is not None), None)
        seen = flags.max(axis=0)
    if error is not None:
        position, code, value = error
        raise ValueError(_describe(job, int(ids[position]), position, code, value))
    return seen


def _shared_sets(
    stored: dict[str, np.ndarray], ids: np.ndarray, node_count: np.ndarray, width: int
) -> np.ndarray:
    """Builds field ``ring`` from the sets of each graph."""
    ring = np.zeros((len(ids), width, width), dtype=np.uint8)
    first, num_sets = _extents("ring_offset", stored["ring_offset"], ids)
    place = np.repeat(np.arange(len(ids)), num_sets)  # in the batch, of each set
    sets = np.arange(num_sets.sum()) + np.repeat(
        first - np.cumsum(num_sets) + num_sets, num_sets
    )
    start, size = _extents("ring_start", stored["ring_start"], sets, "set")
    # Every node with every node of its set: size x size pairs a set.
    rows = np.repeat(start - np.cumsum(size) + size, size) + np.arange(size.sum())
    node = stored["ring_node"][rows].astype(np.int64)
    place = np.repeat(place, size)
    outside = (node < 0) | (node >= node_count[place])
    if outside.any():
        wrong = int(outside.argmax())
        raise ValueError(
            f"ring_node of graph {ids[place[wrong]]} holds {node[wrong]}, expected a "
            f"node in [0, {node_count[place[wrong]]})"
        )
    mates = np.repeat(size, size)  # of each node
    other = np.arange(mates.sum()) + np.repeat(
        np.repeat(np.cumsum(size) - size, size) - np.cumsum(mates) + mates, mates
    )
    ring[np.repeat(place, mates), np.repeat(node, mates), node[other]] = 1
    return ring


def _describe(job: BatchJob, graph: int, position: int, code: int, value: int) -> str:
    """Says what a kernel found wrong in a graph."""
    nodes = int(job.node_count[position])
    return {
        BAD_SOURCE: f"edge_src of graph {graph} holds {value}, expected a node in "
        f"[0, {nodes})",
        BAD_TARGET: f"edge_dst of graph {graph} holds {value}, expected a node in "
        f"[0, {nodes})",
        BAD_BOND: f"edge_bond of graph {graph} holds {value}, expected a type in "
        f"[1, {job.num_bond_types}]",
        BAD_ORDER: f"edge {value} of graph {graph} is out of order, expected edges "
        "sorted by source, target and bond type",
        BAD_DEGREE: f"graph {graph} has a node of {value} neighbours, expected at most "
        f"{np.iinfo(np.int16).max} (int16)",
        BAD_HOPS: f"graph {graph} has a shortest path of {value} hops, expected at "
        f"most {MAX_HOPS} in field dist; pass max_dist to cut distances",
    }[code]
