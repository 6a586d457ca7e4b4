# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention with a score per channel; ``channels.py`` checks and documents.

Work is handed out in items: a slice of the receivers of each graph of a part of the
graphs. Which thread takes an item changes nothing in its results.
"""

from libc.stdint cimport int32_t, uintptr_t
from libc.string cimport memset

import numpy as np

from cython_ext._team cimport run_team


cdef extern from "_channels.h" nogil:
    Py_ssize_t WORDS(Py_ssize_t)
    ctypedef struct channels:
        Py_ssize_t nodes, heads, d, width, padded, base_stride, base_head
        const float *base
        const float *features
        const float *keep
        const float *v
        const float *att
        const float *val
        float *out
        float *most
        float *inverse
        int32_t *features_of
    ctypedef struct channel_gradient:
        const float *out
        float *base
        float *v
        float *att
        float *val
    void filter_channels(const channels *, Py_ssize_t first, Py_ssize_t end)
    void filter_channels_backward(
        const channels *, const channel_gradient *, Py_ssize_t first, Py_ssize_t end
    )
    Py_ssize_t next_number(Py_ssize_t *counter)


cdef struct Job:
    Py_ssize_t B, receivers, parts, slices, next_item, next_room, room
    channels first  # whole batch, and the bits of the first thread
    channel_gradient grad  # whole batch; out is NULL: forward


def run(
    const float[:, :, :, ::1] base,
    const float[:, :, ::1] v,
    const float[:, :, :, ::1] features,
    const float[:, ::1] att,
    const float[:, ::1] val,
    const float[:, :, ::1] keep,
    const float[:, :, ::1] grad,
    float[:, :, :, ::1] state,
    float[:, :, :, :, ::1] grad_base,
    float[:, :, :, ::1] grad_v,
    float[:, :, ::1] grad_att,
    float[:, :, ::1] grad_val,
    *,
    Py_ssize_t channels_of_head,
    Py_ssize_t parts,
    Py_ssize_t slices,
    Py_ssize_t num_threads,
    uintptr_t gomp_parallel,
):
    """Fill ``state`` or, where there is a ``grad``, add to the gradients: those of v and
    of a base for all receivers have a slice each, those of att and val an item.

    Channels are padded to a multiple of 16.
    """
    cdef Job job
    memset(&job, 0, sizeof(Job))
    cdef Py_ssize_t N = features.shape[2], F = features.shape[1]
    cdef Py_ssize_t P = v.shape[2]
    job.B, job.receivers = features.shape[0], base.shape[2]
    job.parts, job.slices = parts, slices
    job.first.nodes, job.first.width, job.first.padded = N, F, P
    job.first.heads, job.first.d = base.shape[1], channels_of_head
    job.first.base_stride = N if base.shape[2] > 1 else 0
    job.first.base_head = base.shape[2] * N
    job.first.base, job.first.features = &base[0, 0, 0, 0], &features[0, 0, 0, 0]
    job.first.v, job.first.att = <const float *> &v[0, 0, 0], <const float *> &att[0, 0]
    if val is not None:
        job.first.val = <const float *> &val[0, 0]
    if keep is not None:
        job.first.keep = &keep[0, 0, 0]
    job.first.out, job.first.most = &state[0, 0, 0, 0], &state[1, 0, 0, 0]
    job.first.inverse = &state[2, 0, 0, 0]
    if grad is not None:
        job.grad.out = <const float *> &grad[0, 0, 0]
        job.grad.base = &grad_base[0, 0, 0, 0, 0]
        job.grad.v = <float *> &grad_v[0, 0, 0, 0]
        job.grad.att = <float *> &grad_att[0, 0, 0]
        if val is not None:
            job.grad.val = <float *> &grad_val[0, 0, 0]
    num_threads = min(num_threads, parts * slices)
    job.room = WORDS(F) * N + 16
    cdef int32_t[:, ::1] features_of = np.empty((num_threads, job.room), np.int32)
    job.first.features_of = &features_of[0, 0]
    with nogil:
        run_team(work, &job, num_threads, gomp_parallel)


cdef void work(void *data) noexcept nogil:
    """What each thread does: one item after another, until none is left."""
    cdef Job *job = <Job *> data
    cdef channels a = job.first
    cdef channel_gradient grad
    cdef Py_ssize_t N = a.nodes, F = a.width, P = a.padded, H = a.heads
    cdef Py_ssize_t number = next_number(&job.next_room)
    cdef Py_ssize_t item, part, slice, b, first, end
    a.features_of += number * job.room
    while True:
        item = next_number(&job.next_item)
        if item >= job.parts * job.slices:
            return
        part, slice = item // job.slices, item % job.slices
        first, end = N * slice // job.slices, N * (slice + 1) // job.slices
        for b in range(job.B * part // job.parts, job.B * (part + 1) // job.parts):
            a.base = job.first.base + b * job.receivers * N * H
            a.features, a.v = job.first.features + b * N * N * F, job.first.v + b * N * P
            a.keep = job.first.keep + b * N * N if job.first.keep else NULL
            a.out, a.most = job.first.out + b * N * P, job.first.most + b * N * P
            a.inverse = job.first.inverse + b * N * P
            if not job.grad.out:
                filter_channels(&a, first, end)
                continue
            grad.out = job.grad.out + b * N * P
            grad.v = job.grad.v + (slice * job.B + b) * N * P
            grad.base = job.grad.base + b * job.receivers * N * H
            if job.receivers == 1:
                grad.base += slice * job.B * N * H
            grad.att = job.grad.att + item * F * P
            grad.val = job.grad.val + item * F * P if a.val else NULL
            filter_channels_backward(&a, &grad, first, end)
