# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The batch kernel (one file of 660 lines, so that its loops are inlined in each other).

``build_batch`` in ``batch.py`` checks its arguments and documents its results. The edges
of each graph are checked here, on a private copy, just before they are used.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from cython_ext._search cimport (
    Searcher,
    close_searcher,
    measure_all,
    open_searcher,
    prepare,
    search_from,
    tabulate_bits,
)

from cython_ext import _job

cdef int BAD_SOURCE = _job.BAD_SOURCE
cdef int BAD_TARGET = _job.BAD_TARGET
cdef int BAD_BOND = _job.BAD_BOND
cdef int BAD_ORDER = _job.BAD_ORDER
cdef int BAD_DEGREE = _job.BAD_DEGREE
cdef int BAD_HOPS = _job.BAD_HOPS
cdef int32_t MAX_DEGREE = _job.MAX_DEGREE

ctypedef fused code_t:
    uint8_t
    uint16_t

ctypedef fused node_t:
    uint8_t
    uint16_t
    int32_t

ctypedef fused hop_t:
    uint8_t
    int32_t

cdef enum:
    SMALL = 64  # nodes of a graph whose hops are measured all at once


cdef struct Array:
    uint8_t *data  # NULL if there is no such array, or nothing in it
    int itemsize


cdef struct Plan:
    Py_ssize_t width
    Py_ssize_t path_length
    Py_ssize_t num_edges  # edges of the batch
    int32_t bond_limit
    int32_t hop_limit
    int32_t bond_base
    const uint16_t *dist_of_hop
    const uint16_t *relation_of_hop
    uint8_t *seen
    Array edge_src
    Array edge_dst
    Array edge_bond
    Array in_degree
    Array out_degree
    Array dist
    Array bond
    Array path_bond
    Array relation_index
    Array edge_index
    Array flat_bond


cdef struct Graph:
    Py_ssize_t place  # position in the batch
    Py_ssize_t n
    Py_ssize_t num_edges
    Py_ssize_t edge_start
    Py_ssize_t node_base
    Py_ssize_t edge_base


cdef struct Scratch:
    Searcher searcher
    int32_t *neighbour_bond  # bond types of searcher.neighbour
    int32_t *src
    int32_t *dst
    int32_t *bond
    int32_t *in_degree
    int32_t *out_degree
    uint16_t *bond_of_pair  # [n, n], where paths are asked for
    uint64_t bytes_of_bits[256]
    uint64_t hops[8 * SMALL]  # bit sets of a small graph
    int32_t value  # what is wrong about the graph


def fill(job, uint8_t[::1] seen):
    """See ``_job``. ``seen[relation]`` is set to 1 for every relation written."""
    cdef const int64_t[::1] node_start = job.node_start
    cdef const int64_t[::1] node_count = job.node_count
    cdef const int64_t[::1] node_base = job.node_base
    cdef const int64_t[::1] edge_start = job.edge_start
    cdef const int64_t[::1] edge_count = job.edge_count
    cdef const int64_t[::1] edge_base = job.edge_base
    cdef const uint16_t[::1] dist_of_hop = job.dist_of_hop
    cdef const uint16_t[::1] relation_of_hop = job.relation_of_hop
    cdef Py_ssize_t graphs = node_count.shape[0], place, width = job.width, row
    cdef Py_ssize_t max_nodes = 0, max_edges = 0
    cdef Array column, output
    cdef Plan plan
    cdef Graph graph
    cdef Scratch scratch
    cdef bint opened
    cdef int fault = 0

    for stored, padded in job.node_columns:
        column, output, row = address(stored), address(padded), stored.shape[1]
        with nogil:
            for place in range(graphs):
                pad_rows(
                    column,
                    output,
                    node_start[place],
                    node_count[place],
                    place,
                    width,
                    row,
                )
    out = job.out
    output = address(out.get("node_mask"))
    if output.data != NULL:
        with nogil:
            for place in range(graphs):
                memset(output.data + place * width, 1, node_count[place])
                memset(
                    output.data + place * width + node_count[place],
                    0,
                    width - node_count[place],
                )
    if job.edge_src is None:
        return None

    plan.width = width
    plan.path_length = out["path_bond"].shape[3] if "path_bond" in out else 0
    plan.num_edges = out["edge_index"].shape[1] if "edge_index" in out else 0
    plan.bond_limit = 1 if job.edge_bond is None else job.num_bond_types
    plan.hop_limit = job.hop_limit
    plan.bond_base = job.bond_base
    plan.dist_of_hop = NULL
    if dist_of_hop is not None:
        plan.dist_of_hop = &dist_of_hop[0]
    plan.relation_of_hop = NULL
    if relation_of_hop is not None:
        plan.relation_of_hop = &relation_of_hop[0]
    plan.seen = &seen[0]
    plan.edge_src = address(job.edge_src)
    plan.edge_dst = address(job.edge_dst)
    plan.edge_bond = address(job.edge_bond)
    plan.in_degree = address(out.get("in_degree"))
    plan.out_degree = address(out.get("out_degree"))
    plan.dist = address(out.get("dist"))
    plan.bond = address(out.get("bond"))
    plan.path_bond = address(out.get("path_bond"))
    plan.relation_index = address(out.get("relation_index"))
    plan.edge_index = address(out.get("edge_index"))
    plan.flat_bond = address(out.get("edge_bond"))

    with nogil:
        for place in range(graphs):
            max_nodes = max(max_nodes, <Py_ssize_t>node_count[place])
            max_edges = max(max_edges, <Py_ssize_t>edge_count[place])
        opened = open_scratch(&scratch, &plan, max_nodes, max_edges)
        if opened:
            for place in range(graphs):
                graph.place = place
                graph.n = node_count[place]
                graph.num_edges = edge_count[place]
                graph.edge_start = edge_start[place]
                if edge_base is not None:
                    graph.node_base = node_base[place]
                    graph.edge_base = edge_base[place]
                fault = fill_graph(&plan, &graph, &scratch)
                if fault != 0:
                    break
        close_scratch(&scratch)
    if not opened:
        raise MemoryError(
            f"no memory for graphs of {max_nodes} nodes and {max_edges} edges"
        )
    return None if fault == 0 else (graph.place, fault, scratch.value)


def replace(code_t[::1] entries, const code_t[::1] table):
    """Replace every entry by ``table[entry]``, in place."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(entries.shape[0]):
            entries[k] = table[entries[k]]


def mark_sets(
    uint8_t[:, :, ::1] ring,
    const int64_t[::1] node_count,
    const int64_t[::1] place,
    const int64_t[::1] size,
    const node_t[::1] node,
):
    """Set ``ring[place[s], i, j]`` to 1 for all pairs of nodes of each set ``s``.

    The nodes of set after set are in ``node``, ``size[s]`` of them. Returns None, or
    ``(place, value)`` of the first node that its graph does not have.
    """
    cdef Py_ssize_t s, i, j, first = 0, last, wrong = -1
    with nogil:
        for s in range(size.shape[0]):
            last = first + size[s]
            for i in range(first, last):
                if node[i] < 0 or node[i] >= node_count[place[s]]:
                    wrong = i
                    break
            if wrong >= 0:
                break
            for i in range(first, last):
                for j in range(first, last):
                    ring[place[s], node[i], node[j]] = 1
            first = last
    return None if wrong < 0 else (place[s], node[wrong])


cdef Array address(array):
    """Address of an array, which must outlive it; stored columns may be read-only."""
    cdef const uint8_t[::1] view
    cdef Array result = Array(NULL, 1)
    if array is not None:
        view = array.reshape(-1).view("u1")
        result.itemsize = array.itemsize
        if view.shape[0] > 0:
            result.data = <uint8_t *>&view[0]
    return result


cdef void pad_rows(
    Array column,
    Array output,
    Py_ssize_t start,
    Py_ssize_t count,
    Py_ssize_t place,
    Py_ssize_t width,
    Py_ssize_t row,
) noexcept nogil:
    """Copy the rows of a graph, uint8 as int16, and pad them with 0."""
    cdef Py_ssize_t k, filled = count * row
    cdef uint8_t *to
    cdef const uint8_t *source
    if output.data == NULL:  # then no graph of the batch has a node
        return
    to = output.data + place * width * row * output.itemsize
    source = column.data + start * row * column.itemsize
    if column.itemsize == output.itemsize:
        memcpy(to, source, filled * output.itemsize)
    else:
        for k in range(filled):
            (<int16_t *>to)[k] = source[k]
    memset(to + filled * output.itemsize, 0, (width * row - filled) * output.itemsize)


cdef bint open_scratch(
    Scratch *scratch, const Plan *plan, Py_ssize_t max_nodes, Py_ssize_t max_edges
) noexcept nogil:
    """Allocate for graphs up to a size. False if there is no memory; close anyway."""
    cdef Py_ssize_t pairs = max_nodes * max_nodes if plan.path_bond.data != NULL else 0
    cdef bint opened = open_searcher(&scratch.searcher, max_nodes, max_edges)
    tabulate_bits(scratch.bytes_of_bits)
    scratch.neighbour_bond = <int32_t *>malloc((max_edges + 1) * sizeof(int32_t))
    scratch.src = <int32_t *>malloc((max_edges + 1) * sizeof(int32_t))
    scratch.dst = <int32_t *>malloc((max_edges + 1) * sizeof(int32_t))
    scratch.bond = <int32_t *>malloc((max_edges + 1) * sizeof(int32_t))
    scratch.in_degree = <int32_t *>malloc((max_nodes + 1) * sizeof(int32_t))
    scratch.out_degree = <int32_t *>malloc((max_nodes + 1) * sizeof(int32_t))
    scratch.bond_of_pair = <uint16_t *>malloc((pairs + 1) * sizeof(uint16_t))
    return (
        opened
        and scratch.neighbour_bond != NULL
        and scratch.src != NULL
        and scratch.dst != NULL
        and scratch.bond != NULL
        and scratch.in_degree != NULL
        and scratch.out_degree != NULL
        and scratch.bond_of_pair != NULL
    )


cdef void close_scratch(Scratch *scratch) noexcept nogil:
    close_searcher(&scratch.searcher)
    free(scratch.neighbour_bond)
    free(scratch.src)
    free(scratch.dst)
    free(scratch.bond)
    free(scratch.in_degree)
    free(scratch.out_degree)
    free(scratch.bond_of_pair)


cdef int fill_graph(
    const Plan *plan, const Graph *graph, Scratch *scratch
) noexcept nogil:
    """Fill all fields of one graph that depend on edges; return 0 or a BAD_ code."""
    cdef Py_ssize_t width = plan.width
    cdef uint8_t *bond
    cdef int fault
    load(plan.edge_src, graph, scratch.src)
    load(plan.edge_dst, graph, scratch.dst)
    load(plan.edge_bond, graph, scratch.bond)
    fault = link(plan, graph, scratch)
    if fault == 0 and plan.out_degree.data != NULL:
        fault = write_degree(plan.out_degree, plan, graph, scratch, scratch.out_degree)
    if fault == 0 and plan.in_degree.data != NULL:
        fault = write_degree(plan.in_degree, plan, graph, scratch, scratch.in_degree)
    if fault != 0:
        return fault
    if plan.edge_index.data != NULL:
        write_edge_index(plan, graph, scratch)
    if plan.flat_bond.data != NULL:
        if plan.flat_bond.itemsize == 1:
            write_flat_bond(<uint8_t *>plan.flat_bond.data, graph, scratch)
        else:
            write_flat_bond(<uint16_t *>plan.flat_bond.data, graph, scratch)
    if plan.bond.data != NULL:
        bond = plan.bond.data + graph.place * width * width * plan.bond.itemsize
        if plan.bond.itemsize == 1:
            write_bond(bond, width, graph, scratch)
        else:
            write_bond(<uint16_t *>bond, width, graph, scratch)
    if (
        plan.dist.data != NULL
        or plan.relation_index.data != NULL
        or plan.path_bond.data != NULL
    ):
        return fill_pairs(plan, graph, scratch)
    return 0


cdef void load(Array column, const Graph *graph, int32_t *to) noexcept nogil:
    """Copy one edge column of a graph; 1 where there is no column."""
    cdef Py_ssize_t e, n = graph.num_edges
    cdef const uint8_t *source
    if column.data == NULL:
        for e in range(n):
            to[e] = 1
        return
    source = column.data + graph.edge_start * column.itemsize
    if column.itemsize == 1:
        for e in range(n):
            to[e] = source[e]
    elif column.itemsize == 2:
        for e in range(n):
            to[e] = (<const uint16_t *>source)[e]
    else:
        for e in range(n):
            to[e] = (<const int32_t *>source)[e]


cdef int link(const Plan *plan, const Graph *graph, Scratch *scratch) noexcept nogil:
    """Check the edges and list the distinct neighbours of each node and their bonds.

    Edges are sorted, so the first of parallel ones has the lowest bond type.
    """
    cdef Py_ssize_t e, u, n = graph.n, listed = 0, node = 0
    cdef int32_t source, target, bond, bond_limit = plan.bond_limit
    cdef int32_t last_source = -1, last_target = -1, last_bond = 0
    # Local pointers: the compiler cannot know that no write below changes the struct.
    cdef const int32_t *src = scratch.src
    cdef const int32_t *dst = scratch.dst
    cdef const int32_t *bonds = scratch.bond
    cdef int32_t *first = scratch.searcher.first
    cdef int32_t *neighbour = scratch.searcher.neighbour
    cdef int32_t *neighbour_bond = scratch.neighbour_bond
    cdef int32_t *in_degree = scratch.in_degree
    cdef int32_t *out_degree = scratch.out_degree
    for u in range(n):
        in_degree[u] = 0
        out_degree[u] = 0
    for e in range(graph.num_edges):
        source = src[e]
        target = dst[e]
        bond = bonds[e]
        if source < 0 or source >= n:
            scratch.value = source
            return BAD_SOURCE
        if target < 0 or target >= n:
            scratch.value = target
            return BAD_TARGET
        if bond < 1 or bond > bond_limit:
            scratch.value = bond
            return BAD_BOND
        if source == last_source and target == last_target:
            if bond < last_bond:
                scratch.value = <int32_t>e
                return BAD_ORDER
            last_bond = bond
            continue
        if source < last_source or source == last_source and target < last_target:
            scratch.value = <int32_t>e
            return BAD_ORDER
        last_source = source
        last_target = target
        last_bond = bond
        while node <= source:
            first[node] = <int32_t>listed
            node += 1
        out_degree[source] += 1
        in_degree[target] += 1
        if source != target:
            neighbour[listed] = target
            neighbour_bond[listed] = bond
            listed += 1
    while node <= n:
        first[node] = <int32_t>listed
        node += 1
    return 0


cdef int write_degree(
    Array output,
    const Plan *plan,
    const Graph *graph,
    Scratch *scratch,
    const int32_t *degree,
) noexcept nogil:
    cdef Py_ssize_t u
    cdef int16_t *to = <int16_t *>output.data + graph.place * plan.width
    for u in range(graph.n):
        if degree[u] > MAX_DEGREE:
            scratch.value = degree[u]
            return BAD_DEGREE
        to[u] = <int16_t>degree[u]
    memset(to + graph.n, 0, (plan.width - graph.n) * sizeof(int16_t))
    return 0


cdef void write_edge_index(
    const Plan *plan, const Graph *graph, const Scratch *scratch
) noexcept nogil:
    cdef Py_ssize_t e
    cdef int64_t *to = <int64_t *>plan.edge_index.data + graph.edge_base
    for e in range(graph.num_edges):
        to[e] = scratch.src[e] + graph.node_base
        to[plan.num_edges + e] = scratch.dst[e] + graph.node_base


cdef void write_flat_bond(
    code_t *to, const Graph *graph, const Scratch *scratch
) noexcept nogil:
    cdef Py_ssize_t e
    for e in range(graph.num_edges):
        to[graph.edge_base + e] = <code_t>scratch.bond[e]


cdef void write_bond(
    code_t *to, Py_ssize_t width, const Graph *graph, const Scratch *scratch
) noexcept nogil:
    """Write the bonds of a graph into a matrix ``[width, width]``."""
    cdef Py_ssize_t u, e
    cdef const int32_t *first = scratch.searcher.first
    memset(to, 0, width * width * sizeof(code_t))
    for u in range(graph.n):
        for e in range(first[u], first[u + 1]):
            to[u * width + scratch.searcher.neighbour[e]] = <code_t>(
                scratch.neighbour_bond[e]
            )


cdef int fill_pairs(
    const Plan *plan, const Graph *graph, Scratch *scratch
) noexcept nogil:
    """Fill the fields that depend on shortest paths."""
    cdef Py_ssize_t width = plan.width, row = (graph.place * width + graph.n) * width
    cdef Py_ssize_t padded = (width - graph.n) * width
    cdef Py_ssize_t size
    cdef int fault
    if plan.path_bond.data == NULL and graph.n <= SMALL:
        fault = fill_small(plan, graph, scratch)
    else:
        fault = fill_by_source(plan, graph, scratch)
    if plan.dist.data != NULL:
        memset(plan.dist.data + row, plan.dist_of_hop[width], padded)
    if plan.relation_index.data != NULL:
        size = plan.relation_index.itemsize
        memset(plan.relation_index.data + row * size, 0, padded * size)
    if plan.path_bond.data != NULL:
        size = plan.path_length * plan.path_bond.itemsize
        memset(plan.path_bond.data + row * size, 0, padded * size)
    return fault


cdef int fill_by_source(
    const Plan *plan, const Graph *graph, Scratch *scratch
) noexcept nogil:
    """Search from every node in turn."""
    cdef Py_ssize_t i, row, reached, n = graph.n
    cdef uint8_t *to
    cdef Searcher *searcher = &scratch.searcher
    cdef int32_t hop, farthest = 0
    cdef bint connected = True
    prepare(searcher, n, <int32_t>plan.width)
    if plan.path_bond.data != NULL:
        write_bond(scratch.bond_of_pair, n, graph, scratch)
    for i in range(n):
        reached = search_from(searcher, i)
        hop = searcher.hop[searcher.order[reached - 1]]
        if hop > plan.hop_limit:
            scratch.value = hop
            return BAD_HOPS
        farthest = max(farthest, hop)
        connected &= reached == n
        write_hops(
            searcher.hop,
            plan.dist_of_hop,
            plan.relation_of_hop,
            i,
            plan,
            graph,
            scratch,
        )
        if plan.path_bond.data != NULL:
            row = (graph.place * plan.width + i) * plan.width * plan.path_length
            to = plan.path_bond.data + row * plan.path_bond.itemsize
            if plan.path_bond.itemsize == 1:
                write_paths(to, reached, plan, scratch)
            else:
                write_paths(<uint16_t *>to, reached, plan, scratch)
    mark_seen(farthest, connected, plan, graph, scratch)
    return 0


cdef int fill_small(
    const Plan *plan, const Graph *graph, Scratch *scratch
) noexcept nogil:
    """Measure the hops between all nodes at once. They are below any limit."""
    cdef Py_ssize_t i
    cdef int32_t hop, farthest
    cdef bint connected
    cdef uint16_t dist_of_hop[SMALL + 1]
    cdef uint16_t relation_of_hop[SMALL + 1]
    scratch.searcher.n = graph.n
    farthest = measure_all(
        &scratch.searcher, scratch.bytes_of_bits, scratch.hops, &connected
    )
    for hop in range(farthest + 1):
        if plan.dist.data != NULL:
            dist_of_hop[hop] = plan.dist_of_hop[hop]
        if plan.relation_index.data != NULL:
            relation_of_hop[hop] = plan.relation_of_hop[hop]
    if plan.dist.data != NULL:
        dist_of_hop[farthest + 1] = plan.dist_of_hop[plan.width]
    if plan.relation_index.data != NULL:
        relation_of_hop[farthest + 1] = plan.relation_of_hop[plan.width]
    for i in range(graph.n):
        write_hops(
            <uint8_t *>&scratch.hops[8 * i],
            dist_of_hop,
            relation_of_hop,
            i,
            plan,
            graph,
            scratch,
        )
    mark_seen(farthest, connected, plan, graph, scratch)
    return 0


cdef inline void write_hops(
    const hop_t *hop,
    const uint16_t *dist_of_hop,
    const uint16_t *relation_of_hop,
    Py_ssize_t i,
    const Plan *plan,
    const Graph *graph,
    const Scratch *scratch,
) noexcept nogil:
    """Write row ``i`` of the fields that depend on hops alone."""
    cdef Py_ssize_t j, row = (graph.place * plan.width + i) * plan.width
    cdef uint8_t *to
    if plan.dist.data != NULL:
        to = plan.dist.data + row
        for j in range(graph.n):
            to[j] = <uint8_t>dist_of_hop[hop[j]]
        memset(to + graph.n, plan.dist_of_hop[plan.width], plan.width - graph.n)
    if plan.relation_index.data != NULL:
        to = plan.relation_index.data + row * plan.relation_index.itemsize
        if plan.relation_index.itemsize == 1:
            write_relation_index(to, hop, relation_of_hop, i, plan, scratch)
        else:
            write_relation_index(<uint16_t *>to, hop, relation_of_hop, i, plan, scratch)


cdef inline void write_relation_index(
    code_t *to,
    const hop_t *hop,
    const uint16_t *relation_of_hop,
    Py_ssize_t i,
    const Plan *plan,
    const Scratch *scratch,
) noexcept nogil:
    cdef Py_ssize_t j, e
    cdef const Searcher *searcher = &scratch.searcher
    for j in range(searcher.n):
        to[j] = <code_t>relation_of_hop[hop[j]]
    for e in range(searcher.first[i], searcher.first[i + 1]):
        to[searcher.neighbour[e]] = <code_t>(
            plan.bond_base + scratch.neighbour_bond[e]
        )
    memset(to + searcher.n, 0, (plan.width - searcher.n) * sizeof(code_t))


cdef inline void write_paths(
    code_t *to, Py_ssize_t reached, const Plan *plan, const Scratch *scratch
) noexcept nogil:
    """Write each path: the path of the predecessor, then one more bond."""
    cdef Py_ssize_t k, step, length = plan.path_length, last
    cdef const Searcher *searcher = &scratch.searcher
    cdef code_t *before
    cdef code_t *path
    cdef int32_t u, v
    memset(to, 0, plan.width * length * sizeof(code_t))
    for k in range(1, reached):
        v = searcher.order[k]
        u = searcher.pred[v]
        path = to + v * length
        before = to + u * length
        last = searcher.hop[u]
        for step in range(min(last, length)):
            path[step] = before[step]
        if last < length:
            path[last] = <code_t>scratch.bond_of_pair[u * searcher.n + v]


cdef void mark_seen(
    int32_t farthest,
    bint connected,
    const Plan *plan,
    const Graph *graph,
    const Scratch *scratch,
) noexcept nogil:
    """Mark the relations of a graph; every number of hops up to the farthest occurs."""
    cdef Py_ssize_t hop, e
    if plan.relation_index.data == NULL:
        return
    if graph.n > 0:
        plan.seen[plan.relation_of_hop[0]] = 1
    for hop in range(2, farthest + 1):
        plan.seen[plan.relation_of_hop[hop]] = 1
    if not connected:
        plan.seen[plan.relation_of_hop[plan.width]] = 1
    for e in range(scratch.searcher.first[graph.n]):
        plan.seen[plan.bond_base + scratch.neighbour_bond[e]] = 1
