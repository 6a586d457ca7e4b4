# cython: language_level=3
"""Breadth-first search, inlined into ``_batch.pyx`` and ``_shortest_path.pyx``.

``search_from`` finds hops and predecessors from one node. Neighbours are lists or sets
of bits (one 64-bit word per 64 nodes), whichever costs fewer steps: a search looks at
every edge once, or at every word of every node. Sets win for graphs of up to 64 nodes,
and for larger ones with more neighbours per node than words (PATTERN, CLUSTER). Both
find the same predecessors.

``measure_all`` finds only the hops, between all pairs of up to 64 nodes.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t
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
    """Allocate for graphs up to a size. False if there is no memory; close anyway."""
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
    """Prepare searches in the graph that `first` and `neighbour` hold."""
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


cdef inline Py_ssize_t search_word(
    Searcher *searcher, Py_ssize_t source
) noexcept nogil:
    """As ``search_sets`` for up to 64 nodes, with the sets in registers."""
    cdef Py_ssize_t reached = 1
    cdef int32_t u, v, level = 0
    cdef uint64_t frontier = <uint64_t>1 << source, unseen = ~frontier
    cdef uint64_t found, fresh
    cdef const uint64_t *adjacency = searcher.adjacency
    cdef int32_t *hop = searcher.hop
    cdef int32_t *pred = searcher.pred
    cdef int32_t *order = searcher.order
    while frontier != 0 and reached < searcher.n:
        level += 1
        found = 0
        while frontier != 0:
            u = lowest_bit(frontier)
            frontier &= frontier - 1
            fresh = adjacency[u] & unseen
            unseen ^= fresh
            found |= fresh
            while fresh != 0:
                v = lowest_bit(fresh)
                fresh &= fresh - 1
                hop[v] = level
                pred[v] = u
                order[reached] = v
                reached += 1
        frontier = found
    return reached


cdef inline Py_ssize_t search_sets(
    Searcher *searcher, Py_ssize_t source
) noexcept nogil:
    """Search level by level, each in ascending order, so that the first node that
    finds another is its lowest predecessor.
    """
    cdef Py_ssize_t u, v, w, z, before, words = searcher.words, reached = 1
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
    """Search with a queue. A predecessor is final when its level has been searched."""
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
    """Fill `hop`, `pred` and `order`; return the number of nodes reached."""
    cdef Py_ssize_t v
    for v in range(searcher.n):
        searcher.hop[v] = searcher.unreached
    searcher.hop[source] = 0
    searcher.pred[source] = -1
    searcher.order[0] = <int32_t>source
    if searcher.words == 1:
        return search_word(searcher, source)
    if searcher.words > 1:
        return search_sets(searcher, source)
    return search_lists(searcher, source)


cdef inline void tabulate_bits(uint64_t *bytes_of_bits) noexcept nogil:
    """Spread every 8 bits over 8 bytes of 0 and 1, in the order of memory."""
    cdef Py_ssize_t bits, k
    for bits in range(256):
        for k in range(8):
            (<uint8_t *>&bytes_of_bits[bits])[k] = bits >> k & 1


cdef inline int32_t measure_all(
    const Searcher *searcher,
    const uint64_t *bytes_of_bits,
    uint64_t *hops,
    bint *connected,
) noexcept nogil:
    """Count the hops between all pairs of at most 64 nodes, without a branch per pair.

    The sets "within 0, 1, 2, ... hops of i" grow, and node j is h hops from i if it is
    outside the first h of them. Eight nodes at a time, the bytes of a word count how
    often each is outside.

    Returns the largest number of hops. Byte ``64 * i + j`` of ``hops`` becomes the
    number of hops from i to j, or one more than the largest if there is no path.
    """
    cdef Py_ssize_t n = searcher.n, i, e, group, groups = (n + 7) // 8
    cdef int32_t level = -1
    cdef uint64_t buffer[128]
    cdef uint64_t *within = buffer
    cdef uint64_t *wider = buffer + 64
    cdef uint64_t *swap
    cdef uint64_t outside, reach, grown = 1
    cdef const int32_t *first = searcher.first
    cdef const int32_t *neighbour = searcher.neighbour
    cdef uint64_t nodes = ~<uint64_t>0 >> (64 - n) if n > 0 else 0
    for i in range(n):
        within[i] = <uint64_t>1 << i
        for group in range(groups):
            hops[8 * i + group] = 0
    while grown != 0:
        level += 1
        grown = 0
        for i in range(n):
            reach = within[i]
            outside = ~reach
            for group in range(groups):
                hops[8 * i + group] += bytes_of_bits[outside >> 8 * group & 255]
            for e in range(first[i], first[i + 1]):
                reach |= within[neighbour[e]]
            wider[i] = reach
            grown |= reach ^ within[i]
        swap = within
        within = wider
        wider = swap
    connected[0] = True
    for i in range(n):
        connected[0] &= within[i] == nodes
    return level
