# cython: language_level=3
"""Breadth-first search from one node, inlined into both compiled modules.

Neighbours are kept as lists, or as sets of bits (one 64-bit word per 64 nodes), whichever
costs fewer steps: a search looks at every edge once, or at every word of every node. Sets
win for graphs of up to 64 nodes, and for larger ones that have more neighbours per node
than words (PATTERN, CLUSTER). Both find the same predecessors.
"""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset


cdef extern from * nogil:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static __inline int lowest_bit(unsigned __int64 bits) {
        unsigned long index;
        _BitScanForward64(&index, bits);
        return (int)index;
    }
    #else
    static inline int lowest_bit(unsigned long long bits) {
        return __builtin_ctzll(bits);
    }
    #endif
    """
    int lowest_bit(uint64_t bits)  # place of the lowest 1; bits must not be 0


cdef struct Searcher:
    Py_ssize_t n
    int32_t unreached  # what `hop` holds for a node without a path
    Py_ssize_t words  # words per set of nodes, 0 if neighbours are kept as lists
    # The graph, filled by the caller: the neighbours of u are those in
    # neighbour[first[u]:first[u + 1]]. Self-loops and repeats are harmless.
    int32_t *first
    int32_t *neighbour
    uint64_t *adjacency  # the same as sets, n x words
    uint64_t *unseen
    uint64_t *frontier
    uint64_t *found
    # The result of a search
    int32_t *hop  # [n]
    int32_t *pred  # [n], -1 for the source, undefined where unreached
    int32_t *order  # the nodes reached, in order of their hops


cdef inline bint open_searcher(
    Searcher *searcher, Py_ssize_t max_nodes, Py_ssize_t max_edges
) noexcept nogil:
    """Allocates for graphs up to a size; False without memory. Close in any case."""
    cdef Py_ssize_t words = max_nodes // 64 + 1
    searcher.first = <int32_t *>malloc((max_nodes + 2) * sizeof(int32_t))
    searcher.neighbour = <int32_t *>malloc((max_edges + 1) * sizeof(int32_t))
    searcher.hop = <int32_t *>malloc((max_nodes + 1) * sizeof(int32_t))
    searcher.pred = <int32_t *>malloc((max_nodes + 1) * sizeof(int32_t))
    searcher.order = <int32_t *>malloc((max_nodes + 1) * sizeof(int32_t))
    # Sets are only used where words == 1 or n * words <= n + E.
    searcher.adjacency = <uint64_t *>malloc(
        (max_nodes + max_edges + 1) * sizeof(uint64_t)
    )
    searcher.unseen = <uint64_t *>malloc(words * sizeof(uint64_t))
    searcher.frontier = <uint64_t *>malloc(words * sizeof(uint64_t))
    searcher.found = <uint64_t *>malloc(words * sizeof(uint64_t))
    return (
        searcher.first != NULL
        and searcher.neighbour != NULL
        and searcher.hop != NULL
        and searcher.pred != NULL
        and searcher.order != NULL
        and searcher.adjacency != NULL
        and searcher.unseen != NULL
        and searcher.frontier != NULL
        and searcher.found != NULL
    )


cdef inline void close_searcher(Searcher *searcher) noexcept nogil:
    free(searcher.first)
    free(searcher.neighbour)
    free(searcher.hop)
    free(searcher.pred)
    free(searcher.order)
    free(searcher.adjacency)
    free(searcher.unseen)
    free(searcher.frontier)
    free(searcher.found)


cdef inline void prepare(
    Searcher *searcher, Py_ssize_t n, int32_t unreached
) noexcept nogil:
    """Prepares searches in the graph of ``n`` nodes that `first` and `neighbour` hold."""
    cdef Py_ssize_t u, e, words = (n + 63) // 64
    cdef int32_t v
    cdef uint64_t *row
    searcher.n = n
    searcher.unreached = unreached
    searcher.words = 0
    if words != 1 and n * words > n + searcher.first[n]:
        return
    searcher.words = words
    memset(searcher.adjacency, 0, n * words * sizeof(uint64_t))
    for u in range(n):
        row = searcher.adjacency + u * words
        for e in range(searcher.first[u], searcher.first[u + 1]):
            v = searcher.neighbour[e]
            row[v >> 6] |= <uint64_t>1 << (v & 63)


cdef inline Py_ssize_t search_sets(
    Searcher *searcher, Py_ssize_t source, Py_ssize_t words
) noexcept nogil:
    """Searches level by level, each in ascending order.

    So the first node that finds another is its lowest predecessor.
    """
    cdef Py_ssize_t u, v, w, z, before, reached = 1
    cdef int32_t level = 0
    cdef uint64_t bits, fresh
    cdef uint64_t *swap
    cdef uint64_t *unseen = searcher.unseen
    cdef uint64_t *frontier = searcher.frontier
    cdef uint64_t *found = searcher.found
    cdef const uint64_t *row
    for w in range(words):
        unseen[w] = ~<uint64_t>0
        frontier[w] = 0
    frontier[source >> 6] = <uint64_t>1 << (source & 63)
    unseen[source >> 6] ^= frontier[source >> 6]
    while True:
        level += 1
        before = reached
        for w in range(words):
            found[w] = 0
        for w in range(words):
            bits = frontier[w]
            while bits != 0:
                u = 64 * w + lowest_bit(bits)
                bits &= bits - 1
                row = searcher.adjacency + u * words
                for z in range(words):
                    fresh = row[z] & unseen[z]
                    unseen[z] ^= fresh
                    found[z] |= fresh
                    while fresh != 0:
                        v = 64 * z + lowest_bit(fresh)
                        fresh &= fresh - 1
                        searcher.hop[v] = level
                        searcher.pred[v] = <int32_t>u
                        searcher.order[reached] = <int32_t>v
                        reached += 1
        if reached == before or reached == searcher.n:
            return reached
        swap = frontier
        frontier = found
        found = swap


cdef inline Py_ssize_t search_lists(
    Searcher *searcher, Py_ssize_t source
) noexcept nogil:
    """Searches through a queue; a predecessor is final once its level is through."""
    cdef Py_ssize_t e, head = 0, reached = 1
    cdef int32_t u, v, next_hop
    while head < reached:
        u = searcher.order[head]
        head += 1
        next_hop = searcher.hop[u] + 1
        for e in range(searcher.first[u], searcher.first[u + 1]):
            v = searcher.neighbour[e]
            if searcher.hop[v] == searcher.unreached:
                searcher.hop[v] = next_hop
                searcher.pred[v] = u
                searcher.order[reached] = v
                reached += 1
            elif searcher.hop[v] == next_hop and u < searcher.pred[v]:
                searcher.pred[v] = u
    return reached


cdef inline Py_ssize_t search_from(
    Searcher *searcher, Py_ssize_t source
) noexcept nogil:
    """Fills `hop`, `pred` and `order`; returns the number of nodes reached."""
    cdef Py_ssize_t v
    for v in range(searcher.n):
        searcher.hop[v] = searcher.unreached
    searcher.hop[source] = 0
    searcher.pred[source] = -1
    searcher.order[0] = <int32_t>source
    if searcher.words == 1:  # the constant lets the compiler drop the loops over words
        return search_sets(searcher, source, 1)
    if searcher.words > 1:
        return search_sets(searcher, source, searcher.words)
    return search_lists(searcher, source)
