# cython: language_level=3, freethreading_compatible=True
"""Attention along edges; ``edges.py`` checks and documents.

Work is handed out in parts of the nodes. Which thread takes one changes nothing in its
results.
"""

from libc.stdint cimport uintptr_t

from cython_ext._team cimport run_job, task


cdef extern from "_edges.h" nogil:
    void edges_by_target(void *)
    void edges_by_source(void *)
    void edges_forward(void *)
    void edges_of_targets(void *)
    void edges_of_sources(void *)


def run(str step, *words, Py_ssize_t num_threads=1, uintptr_t gomp_parallel=0):
    """Run a step of a job with these words: arrays, or None, and whole numbers."""
    cdef task work = edges_forward
    if step == "by_target":
        work = edges_by_target
    elif step == "by_source":
        work = edges_by_source
    elif step == "of_targets":
        work = edges_of_targets
    elif step == "of_sources":
        work = edges_of_sources
    run_job(work, words, num_threads, gomp_parallel)
