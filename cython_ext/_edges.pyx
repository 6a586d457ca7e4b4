# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention along edges; ``edges.py`` checks and documents.

Work is handed out in parts of the nodes. Which thread takes one changes nothing in its
results.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memset

import numpy as np

from cython_ext._team cimport aligned, run_team


cdef extern from "_edges.h" nogil:
    ctypedef struct edge_piece:
        pass
    ctypedef struct edge_job:
        Py_ssize_t nodes, edges, kinds, heads, d, width
        Py_ssize_t parts, next_part, next_room, room, numbers
        float scale, epsilon
        const float *qkv
        const float *factor
        const int64_t *kind
        const int64_t *source
        const int64_t *target
        const float *keep
        int64_t *first
        int64_t *order
        Py_ssize_t *first_piece
        edge_piece *pieces
        float *rooms
        float *out
        float *channels
        const float *of_out
        const float *of_channels
        float *slopes
        float *kept
        float *of_qkv
        float *of_factor
    void sort_edges(edge_job *, const int64_t *)
    void cut_heads(edge_job *)
    void edges_forward(void *)
    void edges_of_targets(void *)
    void edges_of_sources(void *)


def run(
    const float[:, :, ::1] qkv,
    const float[:, ::1] factor,
    const int64_t[:, ::1] index,
    const int64_t[::1] kind,
    const float[:, ::1] keep,
    float[:, ::1] out,
    float[:, ::1] channels,
    const float[:, ::1] of_out,
    const float[:, ::1] of_channels,
    float[:, :, ::1] of_qkv,
    float[:, :, ::1] of_factor,
    *,
    Py_ssize_t heads,
    Py_ssize_t channels_of_head,
    double epsilon,
    Py_ssize_t parts,
    Py_ssize_t num_threads,
    uintptr_t gomp_parallel,
):
    """Fill ``out`` and ``channels`` or, where there is an ``of_out``, the gradients of qkv
    and the factors; those of the factors of kinds have a part each. There is an edge."""
    cdef edge_job job
    memset(&job, 0, sizeof(edge_job))
    cdef Py_ssize_t S = qkv.shape[0], E = index.shape[1], P = qkv.shape[2]
    job.nodes, job.edges, job.width, job.parts = S, E, P, parts
    job.heads, job.d = heads, channels_of_head
    job.scale, job.epsilon = 1 / sqrt(channels_of_head), epsilon
    job.qkv, job.source, job.target = &qkv[0, 0, 0], &index[0, 0], &index[1, 0]
    if factor is not None:
        job.factor, job.kinds = &factor[0, 0], factor.shape[0]
    if kind is not None:
        job.kind = &kind[0]
    if keep is not None:
        job.keep = &keep[0, 0]
    cdef int64_t[::1] first = np.empty(S + 1, np.int64), order = np.empty(E, np.int64)
    cdef Py_ssize_t number = P // 8 + heads
    cdef char[::1] pieces = np.empty(number * sizeof(edge_piece), np.int8)
    cdef Py_ssize_t[::1] first_piece = np.empty(heads + 1, np.intp)
    job.first, job.order = &first[0], &order[0]
    job.pieces, job.first_piece = <edge_piece *> &pieces[0], &first_piece[0]
    cut_heads(&job)
    sort_edges(&job, job.target)
    num_threads = min(num_threads, parts)
    cdef Py_ssize_t largest = np.diff(first).max()
    job.numbers = (largest * heads + 15) // 16 * 16  # whole vectors
    job.room = 3 * job.numbers + (2 * heads + P + 15) // 16 * 16
    cdef float[::1] room = np.zeros(num_threads * job.room + 16, np.float32)
    job.rooms = aligned(&room[0])
    cdef float[:, :, ::1] weights
    if of_out is None:
        job.out = &out[0, 0]
        if channels is not None:
            job.channels = &channels[0, 0]
        with nogil:
            run_team(edges_forward, &job, num_threads, gomp_parallel)
        return
    weights = np.empty((2, E, heads), np.float32)
    job.slopes, job.kept = &weights[0, 0, 0], &weights[1, 0, 0]
    job.of_out, job.of_qkv = &of_out[0, 0], &of_qkv[0, 0, 0]
    if of_channels is not None:
        job.of_channels = &of_channels[0, 0]
    if factor is not None:
        job.of_factor = &of_factor[0, 0, 0]
    with nogil:
        run_team(edges_of_targets, &job, num_threads, gomp_parallel)
        sort_edges(&job, job.source)
        job.next_part = job.next_room = 0
        run_team(edges_of_sources, &job, num_threads, gomp_parallel)
