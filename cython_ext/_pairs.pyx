# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention whose pairs have states; ``pairs.py`` checks and documents.

Work is handed out in parts of the graphs. Which thread takes one changes nothing in its
results.
"""

from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memset

import numpy as np

from cython_ext._team cimport aligned, run_team


cdef extern from "_pairs.h" nogil:
    ctypedef struct pair_graph:
        Py_ssize_t nodes, heads, d
        const float *q
        const float *k
        const float *v
        const float *maps
        const float *score
        const float *keep
        float *t
        float *mixed
        float *states
        float *joint
        float *root
        float *weights
        float *slopes
        float *inverse
    ctypedef struct pair_gradient:
        const float *t
        const float *mixed
        const float *states
        float *q
        float *k
        float *v
        float *maps
        float *score
    void pair_forward(const pair_graph *)
    void pair_backward(const pair_graph *, const pair_gradient *)
    Py_ssize_t next_number(Py_ssize_t *counter)


cdef struct Job:
    Py_ssize_t graphs, parts, numbers, room, next_part, next_room
    const int64_t *node_start  # [graphs + 1]
    const int64_t *pair_start
    pair_graph first  # whole batch, without rooms
    pair_gradient grad  # likewise; q is NULL: forward
    float *rooms


def run(
    const float[:, ::1] q,
    const float[:, ::1] k,
    const float[:, ::1] v,
    const float[:, ::1] maps,
    const float[:, ::1] score,
    const float[:, ::1] keep,
    float[:, ::1] t,
    float[:, ::1] mixed,
    float[:, ::1] states,
    const float[:, ::1] of_t,
    const float[:, ::1] of_mixed,
    const float[:, ::1] of_states,
    float[:, ::1] of_q,
    float[:, ::1] of_k,
    float[:, ::1] of_v,
    float[:, ::1] of_maps,
    float[:, :, ::1] of_score,
    *,
    const int64_t[::1] node_start,
    const int64_t[::1] pair_start,
    Py_ssize_t largest,
    Py_ssize_t parts,
    Py_ssize_t num_threads,
    uintptr_t gomp_parallel,
):
    """Fill t, mixed and states or, where there is an ``of_q``, the gradients from ``of_q`` on;
    those of the score have a part each."""
    cdef Job job
    memset(&job, 0, sizeof(Job))
    cdef pair_graph *a = &job.first
    cdef Py_ssize_t D = q.shape[1], H = score.shape[0]
    job.graphs, job.parts = node_start.shape[0] - 1, parts
    job.node_start, job.pair_start = &node_start[0], &pair_start[0]
    a.heads, a.d = H, D // H
    a.q, a.k = &q[0, 0], &k[0, 0]
    a.v, a.maps = &v[0, 0], &maps[0, 0]
    a.score, a.t = &score[0, 0], &t[0, 0]
    if keep is not None:
        a.keep = &keep[0, 0]
    if of_q is None:
        a.mixed, a.states = &mixed[0, 0], &states[0, 0]
    else:
        job.grad.t = &of_t[0, 0]
        job.grad.mixed = &of_mixed[0, 0]
        job.grad.states = &of_states[0, 0]
        job.grad.q, job.grad.k = &of_q[0, 0], &of_k[0, 0]
        job.grad.v, job.grad.maps = &of_v[0, 0], &of_maps[0, 0]
        job.grad.score = &of_score[0, 0, 0]
    num_threads = min(num_threads, parts)
    job.numbers = (largest * H + 15) // 16 * 16  # whole vectors
    job.room = 2 * (D + job.numbers) + (H + 15) // 16 * 16
    cdef float[::1] room = np.zeros(num_threads * job.room + 16, np.float32)
    job.rooms = aligned(&room[0])
    with nogil:
        run_team(work, &job, num_threads, gomp_parallel)


cdef void work(void *data) noexcept nogil:
    """What each thread does: one part after another, until none is left."""
    cdef Job *job = <Job *> data
    cdef pair_graph a = job.first
    cdef pair_gradient grad
    cdef Py_ssize_t D = a.heads * a.d, number = next_number(&job.next_room)
    cdef Py_ssize_t part, graph, node, pair
    a.joint = job.rooms + number * job.room
    a.root, a.weights = a.joint + D, a.joint + 2 * D
    a.slopes, a.inverse = a.weights + job.numbers, a.weights + 2 * job.numbers
    while True:
        part = next_number(&job.next_part)
        if part >= job.parts:
            return
        for graph in range(
            job.graphs * part // job.parts, job.graphs * (part + 1) // job.parts
        ):
            node, pair = job.node_start[graph], job.pair_start[graph]
            a.nodes = job.node_start[graph + 1] - node
            a.q, a.k = job.first.q + node * D, job.first.k + node * D
            a.v, a.maps = job.first.v + node * D, job.first.maps + 2 * pair * D
            a.t = job.first.t + pair * D
            a.keep = job.first.keep + pair * a.heads if job.first.keep else NULL
            if not job.grad.q:
                a.mixed, a.states = job.first.mixed + node * D, job.first.states + node * D
                pair_forward(&a)
                continue
            grad.t, grad.mixed = job.grad.t + pair * D, job.grad.mixed + node * D
            grad.states = job.grad.states + node * D
            grad.q, grad.k = job.grad.q + node * D, job.grad.k + node * D
            grad.v, grad.maps = job.grad.v + node * D, job.grad.maps + 2 * pair * D
            grad.score = job.grad.score + part * D
            pair_backward(&a, &grad)
