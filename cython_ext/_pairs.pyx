# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention whose pairs have states; ``pairs.py`` checks and documents.

Work is handed out in parts of the graphs. Which thread takes one changes nothing in its
results.
"""

from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memset

import numpy as np


cdef extern from "_pairs.h" nogil:
    int LANES
    ctypedef struct lanes:
        pass
    ctypedef struct pair_graph:
        Py_ssize_t nodes, heads, blocks
        const lanes *q
        const lanes *k
        const lanes *v
        const lanes *maps
        const lanes *score
        const float *keep
        lanes *t
        lanes *mixed
        lanes *states
        lanes *joint
        lanes *root
        lanes *weights
        float *slopes
        float *inverse
    ctypedef struct pair_gradient:
        const lanes *t
        const lanes *mixed
        const lanes *states
        lanes *q
        lanes *k
        lanes *v
        lanes *maps
        lanes *score
    void pair_forward(const pair_graph *)
    void pair_backward(const pair_graph *, const pair_gradient *)
    Py_ssize_t next_number(Py_ssize_t *counter)

# GOMP_parallel: runs a function on threads of the OpenMP team of the caller.
ctypedef void (*parallel)(
    void (*)(void *) noexcept nogil, void *, unsigned, unsigned
) noexcept nogil


cdef struct Job:
    Py_ssize_t graphs, parts, room, next_part, next_room
    const int64_t *node_start  # [graphs + 1]
    const int64_t *pair_start
    pair_graph first  # whole batch, without rooms
    pair_gradient grad  # likewise; q is NULL: forward
    lanes *rooms


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
    cdef Py_ssize_t blocks = q.shape[1] // LANES, H = score.shape[0]
    job.graphs, job.parts = node_start.shape[0] - 1, parts
    job.node_start, job.pair_start = &node_start[0], &pair_start[0]
    a.heads, a.blocks = H, blocks // H
    a.q, a.k = <const lanes *> &q[0, 0], <const lanes *> &k[0, 0]
    a.v, a.maps = <const lanes *> &v[0, 0], <const lanes *> &maps[0, 0]
    a.score, a.t = <const lanes *> &score[0, 0], <lanes *> &t[0, 0]
    if keep is not None:
        a.keep = &keep[0, 0]
    if of_q is None:
        a.mixed, a.states = <lanes *> &mixed[0, 0], <lanes *> &states[0, 0]
    else:
        job.grad.t = <const lanes *> &of_t[0, 0]
        job.grad.mixed = <const lanes *> &of_mixed[0, 0]
        job.grad.states = <const lanes *> &of_states[0, 0]
        job.grad.q, job.grad.k = <lanes *> &of_q[0, 0], <lanes *> &of_k[0, 0]
        job.grad.v, job.grad.maps = <lanes *> &of_v[0, 0], <lanes *> &of_maps[0, 0]
        job.grad.score = <lanes *> &of_score[0, 0, 0]
    num_threads = min(num_threads, parts)
    cdef Py_ssize_t numbers = largest * H // LANES + 1
    job.room = 2 * blocks + 2 * numbers + H // LANES + 1
    cdef float[::1] room = np.zeros((num_threads * job.room + 2) * LANES, np.float32)
    job.rooms = <lanes *> ((<uintptr_t> &room[0] + 63) & ~<uintptr_t> 63)
    with nogil:
        if gomp_parallel and num_threads > 1:
            (<parallel> gomp_parallel)(work, &job, <unsigned> num_threads, 0)
        else:
            work(&job)


cdef void work(void *data) noexcept nogil:
    """What each thread does: one part after another, until none is left."""
    cdef Job *job = <Job *> data
    cdef pair_graph a = job.first
    cdef pair_gradient grad
    cdef Py_ssize_t P = a.heads * a.blocks, number = next_number(&job.next_room)
    cdef Py_ssize_t part, graph, node, pair
    a.joint = job.rooms + number * job.room
    a.root = a.joint + P
    a.weights = a.root + P
    cdef Py_ssize_t numbers = (job.room - 2 * P - a.heads // LANES - 1) // 2
    a.slopes = <float *> (a.weights + numbers)
    a.inverse = <float *> (a.weights + 2 * numbers)
    while True:
        part = next_number(&job.next_part)
        if part >= job.parts:
            return
        for graph in range(
            job.graphs * part // job.parts, job.graphs * (part + 1) // job.parts
        ):
            node, pair = job.node_start[graph], job.pair_start[graph]
            a.nodes = job.node_start[graph + 1] - node
            a.q, a.k = job.first.q + node * P, job.first.k + node * P
            a.v, a.maps = job.first.v + node * P, job.first.maps + 2 * pair * P
            a.t = job.first.t + pair * P
            a.keep = job.first.keep + pair * a.heads if job.first.keep else NULL
            if not job.grad.q:
                a.mixed, a.states = job.first.mixed + node * P, job.first.states + node * P
                pair_forward(&a)
                continue
            grad.t, grad.mixed = job.grad.t + pair * P, job.grad.mixed + node * P
            grad.states = job.grad.states + node * P
            grad.q, grad.k = job.grad.q + node * P, job.grad.k + node * P
            grad.v, grad.maps = job.grad.v + node * P, job.grad.maps + 2 * pair * P
            grad.score = job.grad.score + part * P
            pair_backward(&a, &grad)
