"""The kernels in NumPy, for installations without a compiler.

Same interfaces and results as ``_shortest_path.pyx`` and ``_batch.pyx``, about two
hundred times slower on a batch of small molecules. The functions in
``cython_ext/__init__.py`` check the arguments.
"""

from typing import Optional

import numpy as np

from cython_ext._job import (
    BAD_BOND,
    BAD_DEGREE,
    BAD_HOPS,
    BAD_ORDER,
    BAD_SOURCE,
    BAD_TARGET,
    BatchJob,
)


def search(edge_index: np.ndarray, dist: np.ndarray, pred: np.ndarray) -> int:
    """Fills ``dist`` and ``pred``, both int32 ``[n, n]``, with -1 for unreachable.

    Returns:
        -1, or the first column of ``edge_index`` with a node outside ``0..n-1``.
    """
    n = len(dist)
    outside = ((edge_index < 0) | (edge_index >= n)).any(axis=0)
    if outside.any():
        return int(outside.argmax())
    adjacency = np.zeros((n, n), dtype=bool)
    adjacency[edge_index[0], edge_index[1]] = True
    hops = _all_hops(adjacency)
    dist[:] = np.where(hops == n, -1, hops)
    pred[:] = _lowest_predecessors(adjacency, hops)
    return -1


def relax(dist: np.ndarray, pred: np.ndarray, steps: np.ndarray) -> int:
    """Floyd-Warshall in place, from edge weights, predecessors and steps (0 or 1).

    Returns:
        -1, or the lowest node found on a negative cycle.
    """
    for via in range(len(dist)):
        other = dist[:, via, None] + dist[None, via, :]
        other_steps = steps[:, via, None] + steps[None, via, :]
        other_pred = np.broadcast_to(pred[via], pred.shape)
        tie = (other == dist) & np.isfinite(other)
        better = (other < dist) | tie & (
            (other_steps < steps) | (other_steps == steps) & (other_pred < pred)
        )
        better[:, via] = False  # pred[via, via] is no predecessor
        dist[better] = other[better]
        steps[better] = other_steps[better]
        pred[better] = other_pred[better]
        negative = dist.diagonal() < 0
        if negative.any():
            return int(negative.argmax())
    return -1


def follow(
    pred: np.ndarray, values: Optional[np.ndarray], out: np.ndarray
) -> Optional[tuple[int, int]]:
    """Fills ``out``, prefilled with padding, with the paths that ``pred`` describes.

    Returns:
        None, or the first pair whose predecessors do not lead back to its source.
    """
    n = len(pred)
    source, target = np.indices((n, n))
    hops = np.zeros((n, n), dtype=np.int64)
    hops[(pred < 0) & (source != target)] = -1  # no path
    node = target.copy()
    for _ in range(n):
        away = (hops >= 0) & (node != source) & (node >= 0)
        if not away.any():
            break
        node[away] = pred[source[away], node[away]]
        hops[away] += 1
    wrong = (hops >= 0) & (node != source)
    if wrong.any():
        row, column = divmod(int(wrong.argmax()), n)
        return row, column
    if values is None:
        _walk_back(pred, hops, out, lambda previous, node: node, 0)
        reached = hops >= 0
        out[reached, 0] = source[reached]
    else:
        _walk_back(pred, hops, out, lambda u, v: values[u, v], 1)
    return None


def _walk_back(pred, hops, out, value_of_step, shift) -> None:
    """Writes the value of step ``h`` (1, 2, ...) of each path to ``out[h - shift]``."""
    length = out.shape[2]
    left = hops.copy()
    source, target = np.nonzero(left > 0)
    node = target
    while source.size:
        step = left[source, target]
        previous = pred[source, node]
        kept = step - shift < length
        out[source[kept], target[kept], step[kept] - shift] = value_of_step(
            previous[kept], node[kept]
        )
        left[source, target] -= 1
        more = step > 1
        source, target, node = source[more], target[more], previous[more]


def fill(
    job: BatchJob, first: int, last: int, seen: np.ndarray
) -> Optional[tuple[int, int, int]]:
    """See ``_job``. ``seen[code]`` is set to 1 for every joint code written."""
    for position in range(first, last):
        start, count = job.node_start[position], job.node_count[position]
        for column, out in job.node_columns:
            out[position, :count] = column[start : start + count]
            out[position, count:] = 0
        if "node_mask" in job.out:
            job.out["node_mask"][position] = np.arange(job.width) < count
        if job.edge_src is not None:
            error = _fill_from_edges(job, position, seen)
            if error is not None:
                return position, *error
    return None


def replace(codes: np.ndarray, table: np.ndarray) -> None:
    """Replaces every entry of ``codes`` by ``table[entry]``, in place."""
    np.take(table, codes, out=codes, mode="clip")


def _fill_from_edges(
    job: BatchJob, position: int, seen: np.ndarray
) -> Optional[tuple[int, int]]:
    """Fills every field that depends on edges; returns (code, value) of an error."""
    n, out = int(job.node_count[position]), job.out
    edges = slice(
        job.edge_start[position], job.edge_start[position] + job.edge_count[position]
    )
    src = job.edge_src[edges].astype(np.int64)
    dst = job.edge_dst[edges].astype(np.int64)
    bond = np.ones_like(src)
    if job.edge_bond is not None:
        bond = job.edge_bond[edges].astype(np.int64)
    error = _find_bad_edge(src, dst, bond, n, job)
    if error is not None:
        return error

    distinct = np.ones(len(src), dtype=bool)  # sorted: the lowest type comes first
    distinct[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    for name, ends in (("out_degree", src), ("in_degree", dst)):
        if name in out:
            degree = np.bincount(ends[distinct], minlength=n)
            if (degree > np.iinfo(np.int16).max).any():
                return BAD_DEGREE, int(degree[degree > np.iinfo(np.int16).max][0])
            out[name][position, :n] = degree
            out[name][position, n:] = 0
    if job.edge_base is not None:
        flat = slice(job.edge_base[position], job.edge_base[position] + len(src))
    if "edge_index" in out:
        out["edge_index"][0, flat] = src + job.node_base[position]
        out["edge_index"][1, flat] = dst + job.node_base[position]
    if "edge_bond" in out:
        out["edge_bond"][flat] = bond
    if not out.keys() & {"bond", "dist", "relation_index", "path_bond"}:
        return None

    bonds = np.zeros((n, n), dtype=np.int64)
    bonds[src[distinct], dst[distinct]] = bond[distinct]
    np.fill_diagonal(bonds, 0)
    linked = bonds > 0
    if "bond" in out:
        _write(out["bond"][position], bonds, 0)
    if not out.keys() & {"dist", "relation_index", "path_bond"}:
        return None

    hops = _all_hops(linked)
    if "dist" in out:
        longest = np.where(hops < n, hops, 0).max(axis=1, initial=0)
        if (longest > job.hop_limit).any():
            return BAD_HOPS, int(longest[longest > job.hop_limit][0])
    hops[hops == n] = job.width
    if "dist" in out:
        _write(out["dist"][position], job.dist_of_hop[hops], job.dist_of_hop[-1])
    if "relation_index" in out:
        codes = job.relation_of_hop[hops]
        codes[linked] = job.bond_base + bonds[linked]
        seen[codes] = 1
        _write(out["relation_index"][position], codes, 0)
    if "path_bond" in out:
        block = out["path_bond"][position]
        block[:] = 0
        hops[hops == job.width] = -1
        pred = _lowest_predecessors(linked, np.where(hops < 0, n, hops))
        _walk_back(pred, hops, block, lambda u, v: bonds[u, v], 1)
    return None


def _find_bad_edge(src, dst, bond, n, job) -> Optional[tuple[int, int]]:
    """Returns (code, value) of the first unusable edge, or None."""
    unsorted = np.zeros(len(src), dtype=bool)
    later, tie = dst[1:] < dst[:-1], dst[1:] == dst[:-1]
    unsorted[1:] = (src[1:] < src[:-1]) | (src[1:] == src[:-1]) & (
        later | tie & (bond[1:] < bond[:-1])
    )
    limit = 1 if job.edge_bond is None else job.num_bond_types
    checks = (
        (BAD_SOURCE, (src < 0) | (src >= n), src),
        (BAD_TARGET, (dst < 0) | (dst >= n), dst),
        (BAD_BOND, (bond < 1) | (bond > limit), bond),
        (BAD_ORDER, unsorted, np.arange(len(src))),
    )
    wrong = np.logical_or.reduce([check[1] for check in checks])
    if not wrong.any():
        return None
    edge = int(wrong.argmax())
    for code, bad, value in checks:
        if bad[edge]:
            return code, int(value[edge])
    raise AssertionError("unreachable")


def _write(block: np.ndarray, entries: np.ndarray, padding: int) -> None:
    """Writes ``entries [n, n]`` into the corner of ``block [N, N]``."""
    n = len(entries)
    block[:n, :n] = entries
    block[:n, n:] = padding
    block[n:] = padding


def _all_hops(adjacency: np.ndarray) -> np.ndarray:
    """Hops between all pairs, int64 ``[n, n]``; ``n`` means unreachable."""
    n = len(adjacency)
    hops = np.full((n, n), n, dtype=np.int64)
    frontier = np.eye(n, dtype=bool)
    target, source = adjacency.T.nonzero()
    targets, starts = np.unique(target, return_index=True)
    level = 0
    while frontier.any():
        hops[frontier] = level
        level += 1
        found = np.zeros_like(frontier)
        if targets.size:
            found[:, targets] = np.logical_or.reduceat(
                frontier[:, source], starts, axis=1
            )
        frontier = found & (hops == n)
    return hops


def _lowest_predecessors(adjacency: np.ndarray, hops: np.ndarray) -> np.ndarray:
    """Lowest predecessor of each pair, int32 ``[n, n]``; -1 where there is none."""
    n = len(adjacency)
    pred = np.full((n, n), -1, dtype=np.int32)
    for node in reversed(range(n)):
        last = (hops[:, node, None] + 1 == hops) & adjacency[node] & (hops < n)
        pred[last] = node
    return pred


def find_cycles(
    node_offset: np.ndarray,
    edge_offset: np.ndarray,
    edge_src: np.ndarray,
    edge_dst: np.ndarray,
    max_size: int,
    max_steps: int,
    count: np.ndarray,
) -> tuple[int, Optional[np.ndarray], Optional[np.ndarray]]:
    """Fills ``count`` with the number of cycles of each graph.

    Returns:
        ``(-1, sizes, nodes)``, sizes and nodes of all cycles, int32; or ``(graph, None,
        None)`` for the first graph that takes more than ``max_steps``.
    """
    found = []
    for graph in range(len(count)):
        edges = slice(edge_offset[graph], edge_offset[graph + 1])
        num_nodes = int(node_offset[graph + 1] - node_offset[graph])
        neighbours = [{} for _ in range(num_nodes)]  # in the order of the edges
        for u, v in zip(edge_src[edges].tolist(), edge_dst[edges].tolist()):
            if u != v:
                neighbours[u][v] = neighbours[v][u] = True
        cycles = _cycles_of_graph(neighbours, max_size, max_steps)
        if cycles is None:
            return graph, None, None
        count[graph] = len(cycles)
        found += cycles
    sizes = np.array([len(cycle) for cycle in found], dtype=np.int32)
    nodes = np.array([node for cycle in found for node in cycle], dtype=np.int32)
    return -1, sizes, nodes


def _cycles_of_graph(
    neighbours: list[dict[int, bool]], max_size: int, max_steps: int
) -> Optional[list[list[int]]]:
    """Chordless cycles by their lowest node, depth-first; None: too many steps."""
    lone = [u for u, others in enumerate(neighbours) if len(others) == 1]
    core = [set(others) for others in neighbours]
    while lone:
        for v in core[lone.pop()]:
            core[v] = {u for u in core[v] if len(core[u]) > 1}
            if len(core[v]) == 1:
                lone.append(v)
    inside = [len(others) > 1 for others in core]
    cycles, steps = [], 0
    for start in range(len(neighbours)):
        if not inside[start]:
            continue
        hop, level = {start: 0}, [start]
        while level and hop[level[0]] < max_size // 2:
            for u in level:
                for v in neighbours[u]:
                    if v > start and inside[v]:
                        hop.setdefault(v, hop[u] + 1)
            level = [v for v in hop if hop[v] == hop[level[0]] + 1]
        path, left = [start], [iter(neighbours[start])]
        while path:
            v = next(left[-1], None)
            if v is None:
                path.pop(), left.pop()
                continue
            steps += 1
            if steps > max_steps:
                return None
            if v not in hop or v in path or len(path) + hop[v] > max_size:
                continue
            touching = [u for u in path if v in neighbours[u]]
            if len(path) > 1 and start in touching:
                if len(touching) == 2 and v > path[1]:
                    cycles.append([*path, v])
            elif len(touching) == 1:
                path.append(v)
                left.append(iter(neighbours[v]))
    return cycles
