# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The search for chordless cycles; ``cycles.py`` checks arguments and documents."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import numpy as np


cdef struct Buffer:
    int32_t *data
    Py_ssize_t used
    Py_ssize_t room


cdef struct Search:
    Py_ssize_t max_size
    int64_t steps_left
    int32_t *first  # start of each node's list in neighbour, [n + 1]
    int32_t *neighbour
    int32_t *degree  # neighbours that may lie on a cycle; 0: the node does not
    int32_t *hop  # distance from the start of the cycle, -1: too far
    int32_t *touching  # nodes of the path that are neighbours
    int32_t *near_start  # 1 where the start is a neighbour, 2 on the path
    int32_t *path
    int32_t *place  # position in the list of each node of the path
    Buffer nodes  # nodes of all cycles found
    Buffer sizes


def find_cycles(
    const int64_t[::1] node_offset,
    const int64_t[::1] edge_offset,
    const int64_t[::1] edge_src,
    const int64_t[::1] edge_dst,
    Py_ssize_t max_size,
    int64_t max_steps,
    int64_t[::1] count,
):
    """Fill ``count`` with the number of cycles of each graph.

    Returns:
        ``(-1, sizes, nodes)``, sizes and nodes of all cycles, int32; or ``(graph, None,
        None)`` for the first graph that takes more than ``max_steps``.
    """
    cdef Py_ssize_t graph = -1, n, e, max_nodes = 0, max_edges = 0
    cdef Search search
    cdef bint opened
    cdef int fault = 0
    for graph in range(count.shape[0]):
        max_nodes = max(max_nodes, node_offset[graph + 1] - node_offset[graph])
        max_edges = max(max_edges, edge_offset[graph + 1] - edge_offset[graph])
    with nogil:
        opened = open_search(&search, max_size, max_nodes, 2 * max_edges)
        if opened:
            for graph in range(count.shape[0]):
                search.steps_left = max_steps
                n, e = search.sizes.used, edge_offset[graph]
                fault = search_graph(
                    &search,
                    node_offset[graph + 1] - node_offset[graph],
                    edge_src,
                    edge_dst,
                    e,
                    edge_offset[graph + 1],
                )
                count[graph] = search.sizes.used - n
                if fault != 0:
                    break
    try:
        if not opened or fault == 2:
            raise MemoryError("no memory to search cycles")
        if fault != 0:
            return graph, None, None
        return -1, copied(&search.sizes), copied(&search.nodes)
    finally:
        close_search(&search)


cdef copied(Buffer *buffer):
    result = np.empty(buffer.used, dtype=np.int32)
    cdef int32_t[::1] view = result
    if buffer.used:
        memcpy(&view[0], buffer.data, buffer.used * sizeof(int32_t))
    return result


cdef bint open_search(
    Search *search, Py_ssize_t max_size, Py_ssize_t nodes, Py_ssize_t edges
) noexcept nogil:
    """Allocate for graphs up to a size. False if there is no memory; close anyway."""
    cdef Py_ssize_t k, total = 7 * (nodes + 2) + edges
    cdef int32_t *block = <int32_t *>malloc(total * sizeof(int32_t))
    search.max_size = max_size
    search.first = block
    search.nodes.data = search.sizes.data = NULL
    search.nodes.used = search.sizes.used = 0
    search.nodes.room = search.sizes.room = 0
    if block == NULL:
        return False
    search.degree = block + (nodes + 2)
    search.hop = block + 2 * (nodes + 2)
    search.touching = block + 3 * (nodes + 2)
    search.near_start = block + 4 * (nodes + 2)
    search.path = block + 5 * (nodes + 2)
    search.place = block + 6 * (nodes + 2)
    search.neighbour = block + 7 * (nodes + 2)
    return True


cdef void close_search(Search *search) noexcept nogil:
    free(search.first)
    free(search.nodes.data)
    free(search.sizes.data)


cdef bint append(Buffer *buffer, const int32_t *values, Py_ssize_t n) noexcept nogil:
    cdef int32_t *larger
    cdef Py_ssize_t room
    if buffer.used + n > buffer.room:
        room = 2 * (buffer.used + n) + 1024
        larger = <int32_t *>realloc(buffer.data, room * sizeof(int32_t))
        if larger == NULL:
            return False
        buffer.data, buffer.room = larger, room
    memcpy(buffer.data + buffer.used, values, n * sizeof(int32_t))
    buffer.used += n
    return True


cdef int search_graph(
    Search *search,
    Py_ssize_t n,
    const int64_t[::1] src,
    const int64_t[::1] dst,
    Py_ssize_t first_edge,
    Py_ssize_t last_edge,
) noexcept nogil:
    """Return 0, 1 if there are too many steps, 2 without memory."""
    cdef Py_ssize_t start
    cdef int fault
    link(search, n, src, dst, first_edge, last_edge)
    prune(search, n)
    for start in range(n):
        search.touching[start] = 0
        search.near_start[start] = 0
    for start in range(n):
        if search.degree[start] > 1:
            measure(search, n, start)
            fault = search_from(search, start)
            if fault != 0:
                return fault
    return 0


cdef void link(
    Search *search,
    Py_ssize_t n,
    const int64_t[::1] src,
    const int64_t[::1] dst,
    Py_ssize_t first_edge,
    Py_ssize_t last_edge,
) noexcept nogil:
    """List the distinct neighbours of each node, in either direction."""
    cdef Py_ssize_t e, u, k, begin, end, kept = 0
    cdef int32_t v
    cdef int32_t *first = search.first
    cdef int32_t *seen = search.hop
    for u in range(n + 2):
        first[u] = 0
    for e in range(first_edge, last_edge):
        first[src[e] + 1] += 1
        first[dst[e] + 1] += 1
    for u in range(n):
        first[u + 1] += first[u]
        search.degree[u] = first[u]  # where the next neighbour goes
    for e in range(first_edge, last_edge):
        search.neighbour[search.degree[src[e]]] = <int32_t>dst[e]
        search.degree[src[e]] += 1
        search.neighbour[search.degree[dst[e]]] = <int32_t>src[e]
        search.degree[dst[e]] += 1
    for u in range(n):
        seen[u] = -1
    begin = 0
    for u in range(n):
        end = first[u + 1]
        first[u] = <int32_t>kept
        seen[u] = <int32_t>u  # no self-loops
        for k in range(begin, end):
            v = search.neighbour[k]
            if seen[v] != u:
                seen[v] = <int32_t>u
                search.neighbour[kept] = v
                kept += 1
        begin = end
        search.degree[u] = <int32_t>(kept - first[u])
    first[n] = <int32_t>kept


cdef void prune(Search *search, Py_ssize_t n) noexcept nogil:
    """Remove nodes with a single neighbour left, until there are none."""
    cdef Py_ssize_t u, k, top = 0
    cdef int32_t v
    for u in range(n):
        if search.degree[u] == 1:
            search.path[top] = <int32_t>u
            top += 1
    while top:
        top -= 1
        u = search.path[top]
        if search.degree[u] != 1:
            continue
        search.degree[u] = 0
        for k in range(search.first[u], search.first[u + 1]):
            v = search.neighbour[k]
            if search.degree[v]:
                search.degree[v] -= 1
                if search.degree[v] == 1:
                    search.path[top] = v
                    top += 1


cdef void measure(Search *search, Py_ssize_t n, Py_ssize_t start) noexcept nogil:
    """Hops from the start through later nodes, as far as half a cycle."""
    cdef Py_ssize_t u, k, head = 0, tail = 1
    cdef int32_t v
    for u in range(start, n):
        search.hop[u] = -1
    search.hop[start] = 0
    search.path[0] = <int32_t>start
    while head < tail:
        u = search.path[head]
        head += 1
        if search.hop[u] >= search.max_size // 2:
            break
        for k in range(search.first[u], search.first[u + 1]):
            v = search.neighbour[k]
            if v > start and search.degree[v] and search.hop[v] < 0:
                search.hop[v] = search.hop[u] + 1
                search.path[tail] = v
                tail += 1


cdef inline void touch(Search *search, Py_ssize_t u, int32_t by) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(search.first[u], search.first[u + 1]):
        search.touching[search.neighbour[k]] += by


cdef int search_from(Search *search, Py_ssize_t start) noexcept nogil:
    """Find the cycles whose lowest node is the start, depth-first over paths without
    chords. Of both directions it keeps the one whose second node is below the last.
    """
    cdef Py_ssize_t k, length = 1  # nodes of the path
    cdef int32_t v, size
    cdef int fault = 0
    search.path[0] = <int32_t>start
    search.place[0] = search.first[start]
    for k in range(search.first[start], search.first[start + 1]):
        search.near_start[search.neighbour[k]] = 1
    touch(search, start, 1)
    while length:
        k = search.place[length - 1]
        if fault != 0 or k == search.first[search.path[length - 1] + 1]:
            length -= 1
            touch(search, search.path[length], -1)
            if length > 1:
                search.near_start[search.path[length]] = 0
            elif length == 1:
                search.near_start[search.path[1]] = 1
            continue
        search.place[length - 1] += 1
        search.steps_left -= 1
        if search.steps_left < 0:
            fault = 1
            continue
        v = search.neighbour[k]
        if v <= start or not search.degree[v] or search.hop[v] < 0:
            continue
        if search.near_start[v] == 2 or length + search.hop[v] > search.max_size:
            continue
        if length > 1 and search.near_start[v] == 1:
            if search.touching[v] == 2 and v > search.path[1]:
                search.path[length] = v
                size = <int32_t>(length + 1)
                if not append(&search.nodes, search.path, size):
                    fault = 2
                elif not append(&search.sizes, &size, 1):
                    fault = 2
        elif search.touching[v] == 1:
            search.path[length] = v
            search.place[length] = search.first[v]
            search.near_start[v] = 2
            touch(search, v, 1)
            length += 1
    for k in range(search.first[start], search.first[start + 1]):
        search.near_start[search.neighbour[k]] = 0
    return fault
