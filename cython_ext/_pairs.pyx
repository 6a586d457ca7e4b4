# cython: language_level=3, freethreading_compatible=True
"""Attention whose pairs have states; ``pairs.py`` checks and documents."""

from libc.stdint cimport uintptr_t

from cython_ext._team cimport run_job


cdef extern from "_pairs.h" nogil:
    void join_pairs(void *)


def run(*words, Py_ssize_t num_threads, uintptr_t gomp_parallel):
    """Run a job with these words: arrays, or None, and whole numbers."""
    run_job(join_pairs, words, num_threads, gomp_parallel)
