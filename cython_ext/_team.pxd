"""Start of a function on the threads of an OpenMP team, and their aligned memory."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uintptr_t

ctypedef void (*task)(void *) noexcept nogil
# GOMP_parallel: runs a function on threads of the OpenMP team of the caller.
ctypedef void (*parallel)(task, void *, unsigned, unsigned) noexcept nogil


cdef inline void run_team(
    task work, void *job, Py_ssize_t num_threads, uintptr_t gomp_parallel
) noexcept nogil:
    if gomp_parallel and num_threads > 1:
        (<parallel> gomp_parallel)(work, job, <unsigned> num_threads, 0)
    else:
        work(job)


cdef inline object run_job(
    task work, tuple words, Py_ssize_t num_threads, uintptr_t gomp_parallel
):
    """Run a C struct of pointers and whole numbers, whose first members are the words:
    C-contiguous arrays, None for NULL, and integers; the others are 0."""
    cdef Py_ssize_t job[48]
    cdef Py_ssize_t place
    cdef Py_buffer array
    for place in range(48):
        job[place] = 0
    for place, word in enumerate(words):
        if isinstance(word, int):
            job[place] = word
        elif word is not None:
            PyObject_GetBuffer(word, &array, PyBUF_SIMPLE)
            job[place] = <Py_ssize_t> array.buf
            PyBuffer_Release(&array)
    with nogil:
        run_team(work, job, num_threads, gomp_parallel)


cdef inline float *aligned(float *room) noexcept nogil:
    """The first address of a line of the cache; at most 15 numbers are passed over."""
    return <float *> ((<uintptr_t> room + 63) & ~<uintptr_t> 63)
