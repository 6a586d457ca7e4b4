"""Start of a function on the threads of an OpenMP team, and their aligned memory."""

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


cdef inline float *aligned(float *room) noexcept nogil:
    """The first address of a line of the cache; at most 15 numbers are passed over."""
    return <float *> ((<uintptr_t> room + 63) & ~<uintptr_t> 63)
