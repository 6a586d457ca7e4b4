# cython: language_level=3, freethreading_compatible=True
"""Attention with a score per channel; ``channels.py`` checks and documents."""

from libc.stdint cimport uintptr_t

from cython_ext._team cimport run_job


cdef extern from "_channels.h" nogil:
    void filter_channels(void *)


def run(*words, Py_ssize_t num_threads, uintptr_t gomp_parallel):
    """Run a job with these words: arrays, or None, and whole numbers."""
    run_job(filter_channels, words, num_threads, gomp_parallel)
