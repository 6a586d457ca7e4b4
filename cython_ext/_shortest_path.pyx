# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Kernels on single graphs; ``paths.py`` checks arguments and documents results."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from cython_ext._search cimport (
    Searcher,
    close_searcher,
    open_searcher,
    prepare,
    search_from,
)


def search(
    const int64_t[:, ::1] edge_index, int32_t[:, ::1] dist, int32_t[:, ::1] pred
):
    """Fill ``dist`` and ``pred``, both ``[n, n]``, with -1 for unreachable.

    Returns:
        -1, or the first column of ``edge_index`` with a node outside ``0..n-1``.
    """
    cdef Searcher searcher
    cdef Py_ssize_t wrong = -1
    cdef bint opened
    with nogil:
        opened = open_searcher(&searcher, dist.shape[0], edge_index.shape[1])
        if opened:
            wrong = search_all(&searcher, edge_index, dist, pred)
        close_searcher(&searcher)
    if not opened:
        raise MemoryError("no memory to search shortest paths")
    return wrong


cdef Py_ssize_t search_all(
    Searcher *searcher,
    const int64_t[:, ::1] edge_index,
    int32_t[:, ::1] dist,
    int32_t[:, ::1] pred,
) noexcept nogil:
    cdef Py_ssize_t n = dist.shape[0], i, j, k, reached
    cdef Py_ssize_t wrong = link(searcher, edge_index, n)
    if wrong >= 0:
        return wrong
    prepare(searcher, n, -1)
    for i in range(n):
        reached = search_from(searcher, i)
        for j in range(n):
            dist[i, j] = searcher.hop[j]
            pred[i, j] = -1
        for k in range(1, reached):
            j = searcher.order[k]
            pred[i, j] = searcher.pred[j]
    return -1


cdef Py_ssize_t link(
    Searcher *searcher, const int64_t[:, ::1] edge_index, Py_ssize_t n
) noexcept nogil:
    """Sort the edges by their source; return -1 or the first column out of range."""
    cdef Py_ssize_t e, u, num_edges = edge_index.shape[1]
    cdef int64_t source, target
    cdef int32_t *first = searcher.first
    for u in range(n + 2):
        first[u] = 0
    for e in range(num_edges):
        source = edge_index[0, e]
        target = edge_index[1, e]
        if source < 0 or source >= n or target < 0 or target >= n:
            return e
        first[source + 2] += 1
    # Shifted by one node: first[u + 1] moves from the start of u's list to its end.
    for u in range(2, n + 2):
        first[u] += first[u - 1]
    for e in range(num_edges):
        source = edge_index[0, e]
        searcher.neighbour[first[source + 1]] = <int32_t>edge_index[1, e]
        first[source + 1] += 1
    return -1


def relax(double[:, ::1] dist, int32_t[:, ::1] pred, int32_t[:, ::1] steps):
    """Floyd-Warshall in place, from edge weights, predecessors and steps (0 or 1).

    Returns:
        -1, or the lowest node found on a negative cycle.
    """
    cdef Py_ssize_t node
    with nogil:
        node = relax_all(dist, pred, steps)
    return node


cdef Py_ssize_t relax_all(
    double[:, ::1] dist, int32_t[:, ::1] pred, int32_t[:, ::1] steps
) noexcept nogil:
    cdef Py_ssize_t n = dist.shape[0], via, i, j
    cdef double to_via, other
    cdef int32_t other_steps
    for via in range(n):
        for i in range(n):
            to_via = dist[i, via]
            if to_via == INFINITY:
                continue
            for j in range(n):
                other = to_via + dist[via, j]
                if other > dist[i, j] or other == INFINITY or j == via:
                    continue  # pred[via, via] is not a predecessor
                other_steps = steps[i, via] + steps[via, j]
                if other == dist[i, j] and (
                    other_steps > steps[i, j]
                    or other_steps == steps[i, j] and pred[via, j] >= pred[i, j]
                ):
                    continue
                dist[i, j] = other
                steps[i, j] = other_steps
                pred[i, j] = pred[via, j]
        for i in range(n):
            if dist[i, i] < 0:
                return i
    return -1


def follow(const int32_t[:, ::1] pred, values, int32_t[:, :, ::1] out):
    """Fill ``out``, prefilled with padding, with the paths that ``pred`` describes.

    Returns:
        None, or the first pair whose predecessors do not lead back to its source.
    """
    cdef Py_ssize_t n = pred.shape[0], i, lost = -1
    cdef const int32_t[:, ::1] steps = pred if values is None else values
    cdef bint nodes = values is None
    cdef int32_t *hop = <int32_t *>malloc((n + 1) * sizeof(int32_t))
    cdef int32_t *stack = <int32_t *>malloc((n + 1) * sizeof(int32_t))
    try:
        if hop == NULL or stack == NULL:
            raise MemoryError("no memory to follow paths")
        with nogil:
            for i in range(n):
                lost = follow_row(i, pred, nodes, steps, out[i], hop, stack)
                if lost >= 0:
                    break
    finally:
        free(hop)
        free(stack)
    return None if lost < 0 else (i, lost)


cdef Py_ssize_t follow_row(
    Py_ssize_t i,
    const int32_t[:, ::1] pred,
    bint nodes,
    const int32_t[:, ::1] values,
    int32_t[:, ::1] out,
    int32_t *hop,
    int32_t *stack,
) noexcept nogil:
    """Write the paths from ``i``, each from that of its predecessor.

    Returns -1, or the first node from which `pred` does not lead back to ``i``.
    """
    cdef Py_ssize_t n = pred.shape[0], length = out.shape[1], j, k, last, height
    cdef int32_t u, v
    for j in range(n):
        hop[j] = -1
    hop[i] = 0
    if nodes:
        out[i, 0] = <int32_t>i
    for j in range(n):
        if hop[j] >= 0 or pred[i, j] < 0:
            continue
        height = 0
        v = <int32_t>j
        while hop[v] < 0:
            if height == n or pred[i, v] < 0:
                return j  # a circle, or a dead end
            stack[height] = v
            height += 1
            v = pred[i, v]
        while height > 0:
            height -= 1
            v = stack[height]
            u = pred[i, v]
            hop[v] = hop[u] + 1
            last = hop[v] if nodes else hop[v] - 1
            for k in range(min(last, length)):
                out[v, k] = out[u, k]
            if last < length:
                out[v, last] = v if nodes else values[u, v]
    return -1
