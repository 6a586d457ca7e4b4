# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention with relations and its gradient; ``attention.py`` checks and documents.

Work is handed out in items: eight heads of a part of the graphs. Which thread takes an
item changes nothing in its results.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

import numpy as np


cdef extern from "_attention.h" nogil:
    int LANES
    bint HAS_VECTORS
    ctypedef struct lanes:
        pass
    ctypedef struct streams:
        pass
    ctypedef struct attention:
        Py_ssize_t nodes, relations, d, bias_heads
        const int64_t *relation
        uint8_t *occurs
        bint key_from_row
        const float *bias
        uint32_t drop_below
        streams random
        lanes *q
        lanes *k
        lanes *v
        lanes *query_table
        lanes *key_table
        lanes *value_table
        lanes *query
        lanes *key
        lanes *weights
        lanes *sums
        lanes *pairs
    ctypedef struct gradient:
        lanes *out
        lanes *q
        lanes *k
        lanes *v
        lanes *query_table
        lanes *key_table
        lanes *value_table
        lanes *query
        lanes *key
        lanes *value
        float *bias
    void mark_relations(const attention *)
    streams streams_of(uint64_t seed, uint64_t first)
    void attend(const attention *, lanes *out)
    void attend_backward(const attention *, const gradient *)
    void to_lanes(
        const float *source, Py_ssize_t head_stride, Py_ssize_t row_stride,
        Py_ssize_t rows, Py_ssize_t d, Py_ssize_t heads, float scale, lanes *target,
    )
    void from_lanes(
        const lanes *source, Py_ssize_t head_stride, Py_ssize_t row_stride,
        Py_ssize_t rows, Py_ssize_t d, Py_ssize_t heads, float scale, float *target,
    )
    Py_ssize_t next_number(Py_ssize_t *counter)

COMPILED = HAS_VECTORS

# GOMP_parallel: runs a function on threads of the OpenMP team of the caller.
ctypedef void (*parallel)(
    void (*)(void *) noexcept nogil, void *, unsigned, unsigned
) noexcept nogil


cdef struct Job:
    Py_ssize_t B, T, H, R, d, parts, items, room_size
    bint key_from_row
    float scale, rescale
    uint32_t drop_below
    uint64_t seed
    const float *qkv
    const float *tables[3]
    const int64_t *relation  # NULL: no relations
    const float *bias  # NULL: none
    const float *grad  # NULL: forward
    float *out  # [B, T, D]; or the gradient of qkv
    float *grad_tables  # [parts, 3, H, R + 1, d]
    float *grad_bias
    lanes *rooms
    uint8_t *occurs
    Py_ssize_t next_item, next_room


def run(
    const float[:, :, ::1] qkv,
    tables,
    const int64_t[:, :, ::1] relation,
    const float[:, :, :, ::1] bias,
    const float[:, :, ::1] grad,
    float[:, :, ::1] out,
    float[:, :, :, :, ::1] grad_tables,
    float[:, :, :, ::1] grad_bias,
    *,
    Py_ssize_t heads,
    Py_ssize_t parts,
    bint key_from_row,
    double dropout,
    uint64_t seed,
    Py_ssize_t num_threads,
    uintptr_t gomp_parallel,
):
    """Fill ``out`` or, where there is a ``grad``, the gradients.

    Returns the first graph with a wrong relation (then nothing is filled), or -1.
    """
    cdef Job job
    cdef const float[:, :, ::1] table
    cdef Py_ssize_t number, wrong
    memset(&job, 0, sizeof(Job))
    job.B, job.T, job.H, job.parts = qkv.shape[0], qkv.shape[1], heads, parts
    job.d = qkv.shape[2] // (3 * heads)
    job.items = parts * ((heads + LANES - 1) // LANES)
    if not job.B or not job.T:
        return -1
    job.key_from_row, job.seed = key_from_row, seed
    job.scale, job.rescale = 1 / sqrt(job.d), 1 / (1 - dropout)
    job.drop_below = <uint32_t> (dropout * 2.0**32)
    job.qkv, job.out = &qkv[0, 0, 0], &out[0, 0, 0]
    if relation is not None:
        job.relation = &relation[0, 0, 0]
        for number in range(3):
            table = tables[number]
            job.tables[number] = &table[0, 0, 0]
        job.R = table.shape[1] - 1
        wrong = first_wrong(job.relation, job.B, job.T * job.T, job.R)
        if wrong >= 0:
            return wrong
    if bias is not None:
        job.bias = &bias[0, 0, 0, 0]
    if grad is not None:
        job.grad = &grad[0, 0, 0]
        if relation is not None:
            job.grad_tables = &grad_tables[0, 0, 0, 0, 0]
        if bias is not None:
            job.grad_bias = &grad_bias[0, 0, 0, 0]
    # Seven arrays [T, d], six tables, two of products, single rows.
    cdef Py_ssize_t T = job.T, R = job.R, d = job.d
    job.room_size = 7 * T * d + 6 * R * d + 2 * T * R + 2 * T + 4 * R
    num_threads = min(num_threads, job.items)
    cdef float[::1] room = np.empty(
        (num_threads * job.room_size + 2) * LANES, np.float32
    )
    cdef uint8_t[::1] occurs = np.empty(num_threads * (R + 1), np.uint8)
    job.occurs = &occurs[0]
    job.rooms = <lanes *> ((<uintptr_t> &room[0] + 63) & ~<uintptr_t> 63)
    with nogil:
        if gomp_parallel and num_threads > 1:
            (<parallel> gomp_parallel)(work, &job, <unsigned> num_threads, 0)
        else:
            work(&job)
    return -1


cdef Py_ssize_t first_wrong(
    const int64_t *relation, Py_ssize_t graphs, Py_ssize_t pairs, Py_ssize_t forbidden
) noexcept nogil:
    """The first graph with a relation outside ``0..forbidden``, or -1."""
    cdef Py_ssize_t graph, pair
    cdef bint wrong
    for graph in range(graphs):
        wrong = False
        for pair in range(graph * pairs, (graph + 1) * pairs):
            wrong |= <uint64_t> relation[pair] > <uint64_t> forbidden
        if wrong:
            return graph
    return -1


cdef void work(void *data) noexcept nogil:
    """What each thread does: one item after another, until none is left."""
    cdef Job *job = <Job *> data
    cdef Py_ssize_t node = job.T * job.d, table = job.R * job.d, item
    cdef Py_ssize_t number = next_number(&job.next_room)
    cdef lanes *room = job.rooms + number * job.room_size
    cdef attention a
    cdef gradient grad
    a.nodes, a.relations, a.d = job.T, job.R, job.d
    a.occurs = job.occurs + number * (job.R + 1)
    a.key_from_row, a.drop_below = job.key_from_row, job.drop_below
    a.q, grad.q = take(&room, 3 * node), take(&room, 3 * node)
    grad.out = take(&room, node)
    a.query_table, grad.query_table = take(&room, 3 * table), take(&room, 3 * table)
    a.k, a.v = a.q + node, a.q + 2 * node
    grad.k, grad.v = grad.q + node, grad.q + 2 * node
    a.key_table, a.value_table = a.query_table + table, a.query_table + 2 * table
    grad.key_table = grad.query_table + table
    grad.value_table = grad.query_table + 2 * table
    a.key, grad.key = take(&room, job.T * job.R), take(&room, job.T * job.R)
    a.weights, a.pairs = take(&room, job.T), take(&room, job.T)
    a.query, a.sums = take(&room, job.R), take(&room, job.R)
    grad.query, grad.value = take(&room, job.R), take(&room, job.R)
    while True:
        item = next_number(&job.next_item)
        if item >= job.items:
            return
        attend_item(job, item // job.parts * LANES, item % job.parts, &a, &grad)


cdef lanes *take(lanes **room, Py_ssize_t size) noexcept nogil:
    room[0] += size
    return room[0] - size


cdef void attend_item(
    Job *job, Py_ssize_t head, Py_ssize_t part, attention *a, gradient *grad
) noexcept nogil:
    """The heads from ``head`` on, for one part of the graphs."""
    cdef Py_ssize_t T = job.T, d = job.d, H = job.H, rows = job.R + 1, width = H * d
    cdef Py_ssize_t heads = min(H - head, LANES), table = job.R * d, b, at, i
    a.bias_heads = heads
    if job.relation:
        memset(grad.query_table, 0, 3 * table * sizeof(lanes))
        for i in range(3):
            to_lanes(
                job.tables[i] + head * rows * d, rows * d, d, job.R, d, heads,
                job.scale if i == 1 else 1, a.query_table + i * table,
            )
    for b in range(job.B * part // job.parts, job.B * (part + 1) // job.parts):
        at = b * T * width + head * d  # index in [B, T, D]
        a.random = streams_of(job.seed, b * H + head)
        a.relation = NULL
        if job.relation:
            a.relation = job.relation + b * T * T
            mark_relations(a)
        a.bias = job.bias + (b * H + head) * T * T if job.bias else NULL
        for i in range(3):
            to_lanes(
                job.qkv + 3 * b * T * width + i * width + head * d, d, 3 * width, T, d,
                heads, job.scale if i == 0 else 1, a.q + i * T * d,
            )
        if not job.grad:
            attend(a, grad.out)
            from_lanes(grad.out, d, width, T, d, heads, job.rescale, job.out + at)
            continue
        to_lanes(job.grad + at, d, width, T, d, heads, job.rescale, grad.out)
        grad.bias = job.grad_bias + (b * H + head) * T * T if job.bias else NULL
        attend_backward(a, grad)
        for i in range(3):
            from_lanes(
                grad.q + i * T * d, d, 3 * width, T, d, heads,
                job.scale if i == 0 else 1,
                job.out + 3 * b * T * width + i * width + head * d,
            )
    if job.grad and job.relation:
        for i in range(3):
            from_lanes(
                grad.query_table + i * table, rows * d, d, job.R, d, heads,
                job.scale if i == 1 else 1,
                job.grad_tables + ((part * 3 + i) * H + head) * rows * d,
            )
