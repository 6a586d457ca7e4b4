# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention with a score per channel; ``channels.py`` checks and documents."""

from libc.stdint cimport uintptr_t
from libc.string cimport memset

import numpy as np


cdef extern from "_channels.h" nogil:
    int LANES
    ctypedef struct lanes:
        pass
    ctypedef struct channels:
        Py_ssize_t nodes, heads, width, blocks, base_stride
        const float *base
        const float *v
        const float *att
        const float *val
        const float *keep
        lanes *weights
        lanes *messages
        lanes *grad_v
    ctypedef struct channel_gradient:
        const float *out
        float *base
        float *v
        float *att
        float *val
    void filter_channels(const channels *, float *out)
    void filter_channels_backward(const channels *, const channel_gradient *)
    Py_ssize_t next_number(Py_ssize_t *counter)

# GOMP_parallel: runs a function on threads of the OpenMP team of the caller.
ctypedef void (*parallel)(
    void (*)(void *) noexcept nogil, void *, unsigned, unsigned
) noexcept nogil


cdef struct Job:
    Py_ssize_t B, receivers, next_graph, next_room
    channels first  # of the batch, without rooms
    channel_gradient grad  # likewise; out is NULL: forward
    float *out  # [B, N, D]
    lanes *rooms


def run(
    const float[:, :, :, ::1] base,
    const float[:, :, ::1] v,
    const float[:, :, :, ::1] att,
    const float[:, :, :, ::1] val,
    const float[:, :, ::1] keep,
    const float[:, :, ::1] grad,
    float[:, :, ::1] out,
    float[:, :, :, ::1] grad_base,
    float[:, :, :, ::1] grad_att,
    float[:, :, :, ::1] grad_val,
    *,
    Py_ssize_t num_threads,
    uintptr_t gomp_parallel,
):
    """Fills ``out`` with the result or, where there is a ``grad``, with that of v."""
    cdef Job job
    memset(&job, 0, sizeof(Job))
    if not att.shape[0] or not att.shape[1]:
        return
    job.B, job.receivers = att.shape[0], base.shape[1]
    job.first.nodes, job.first.width = att.shape[1], att.shape[3]
    job.first.heads = base.shape[3]
    job.first.blocks = (att.shape[3] + LANES - 1) // LANES
    if base.shape[1] > 1:
        job.first.base_stride = base.shape[2] * base.shape[3]
    job.first.base, job.first.v = &base[0, 0, 0, 0], &v[0, 0, 0]
    job.first.att, job.out = &att[0, 0, 0, 0], &out[0, 0, 0]
    if val is not None:
        job.first.val = &val[0, 0, 0, 0]
    if keep is not None:
        job.first.keep = &keep[0, 0, 0]
    if grad is not None:
        job.grad.out, job.grad.base = &grad[0, 0, 0], &grad_base[0, 0, 0, 0]
        job.grad.att = &grad_att[0, 0, 0, 0]
        if val is not None:
            job.grad.val = &grad_val[0, 0, 0, 0]
    num_threads = min(num_threads, job.B)
    cdef Py_ssize_t room_size = 3 * job.first.nodes * job.first.blocks
    cdef float[::1] room = np.empty((num_threads * room_size + 2) * LANES, np.float32)
    job.rooms = <lanes *> ((<uintptr_t> &room[0] + 63) & ~<uintptr_t> 63)
    with nogil:
        if gomp_parallel and num_threads > 1:
            (<parallel> gomp_parallel)(work, &job, <unsigned> num_threads, 0)
        else:
            work(&job)


cdef void work(void *data) noexcept nogil:
    """What each thread does: one graph after another, until none is left."""
    cdef Job *job = <Job *> data
    cdef channels a
    cdef channel_gradient grad
    cdef Py_ssize_t N = job.first.nodes, D = job.first.width, b
    cdef Py_ssize_t room = N * job.first.blocks
    cdef Py_ssize_t bases = job.receivers * N * job.first.heads
    cdef lanes *own = job.rooms + 3 * room * next_number(&job.next_room)
    while True:
        b = next_number(&job.next_graph)
        if b >= job.B:
            return
        a = job.first
        a.weights, a.messages, a.grad_v = own, own + room, own + 2 * room
        a.base, a.v, a.att = a.base + b * bases, a.v + b * N * D, a.att + b * N * N * D
        if a.val:
            a.val += b * N * N * D
        if a.keep:
            a.keep += b * N * N
        if not job.grad.out:
            filter_channels(&a, job.out + b * N * D)
            continue
        grad.out, grad.v = job.grad.out + b * N * D, job.out + b * N * D
        grad.base, grad.att = job.grad.base + b * bases, job.grad.att + b * N * N * D
        grad.val = job.grad.val + b * N * N * D if a.val else NULL
        filter_channels_backward(&a, &grad)
