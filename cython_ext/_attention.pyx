# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention with relations and its gradient; ``attention.py`` checks and documents."""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

import numpy as np

from cython_ext._team cimport aligned, run_team


cdef extern from "_attention.h" nogil:
    bint HAS_VECTORS
    Py_ssize_t GROUP
    ctypedef struct attention:
        Py_ssize_t graphs, nodes, heads, relations, d, parts, items, room_size
        bint key_from_row
        float scale, rescale
        uint32_t drop_below
        uint64_t seed
        const float *qkv
        const float *tables[3]
        const int64_t *relation
        const float *bias
        const float *bias_end
        const float *grad
        float *out
        float *grad_tables
        float *grad_bias
        Py_ssize_t bias_graph, bias_head, bias_row
        float *rooms
    Py_ssize_t room_size(const attention *)
    void attend(void *)
    void drop(
        const float *, Py_ssize_t, uint64_t seed, uint32_t drop_below, float rescale,
        float *,
    )

COMPILED = HAS_VECTORS


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
    cdef attention job
    cdef const float[:, :, ::1] table
    cdef Py_ssize_t number, wrong
    memset(&job, 0, sizeof(attention))
    job.graphs, job.nodes, job.heads, job.parts = qkv.shape[0], qkv.shape[1], heads, parts
    job.d = qkv.shape[2] // (3 * heads)
    if not job.graphs or not job.nodes:
        return -1
    job.key_from_row, job.seed = key_from_row, seed
    job.scale, job.rescale = 1 / sqrt(job.d), 1 / (1 - dropout)
    job.drop_below = <uint32_t> (dropout * 2.0**32)
    job.qkv, job.out = &qkv[0, 0, 0], &out[0, 0, 0]
    job.items = parts * heads
    if relation is not None:
        job.items = parts * ((heads + GROUP - 1) // GROUP)
        job.relation = &relation[0, 0, 0]
        for number in range(3):
            table = tables[number]
            job.tables[number] = &table[0, 0, 0]
        job.relations = table.shape[1] - 1
        wrong = first_wrong(
            job.relation, job.graphs, job.nodes * job.nodes, job.relations
        )
        if wrong >= 0:
            return wrong
    if bias is not None:
        job.bias = &bias[0, 0, 0, 0]
        job.bias_row = job.nodes if bias.shape[2] > 1 else 0
        job.bias_head = bias.shape[2] * job.nodes
        job.bias_graph = heads * job.bias_head
        job.bias_end = &bias[0, 0, 0, 0] + job.graphs * job.bias_graph
    if grad is not None:
        job.grad = &grad[0, 0, 0]
        if relation is not None:
            job.grad_tables = &grad_tables[0, 0, 0, 0, 0]
        if grad_bias is not None:
            job.grad_bias = &grad_bias[0, 0, 0, 0]
    num_threads = min(num_threads, job.items)
    job.room_size = room_size(&job)
    cdef float[::1] rooms = np.zeros(num_threads * job.room_size + 16, np.float32)
    job.rooms = aligned(&rooms[0])
    with nogil:
        run_team(attend, &job, num_threads, gomp_parallel)
    return -1


def drop_out(const float[::1] x, float[::1] out, double dropout, uint64_t seed):
    """Fill ``out``."""
    if x.shape[0]:
        with nogil:
            drop(
                &x[0], x.shape[0], seed, <uint32_t> (dropout * 2.0**32),
                1 / (1 - dropout), &out[0],
            )


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
