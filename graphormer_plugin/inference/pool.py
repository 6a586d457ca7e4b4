"""Rows of a table on all cores: processes that predict, or that read SMILES for a GPU."""

import contextlib
import itertools
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from threadpoolctl import threadpool_limits

from graphormer_plugin.inference.molecules import read_rows
from graphormer_plugin.inference.table_run import PredictedRows, Rows, TableRun
from graphormer_plugin.workers import in_order, in_workers, start_worker

_run: TableRun | None = None  # in a process of the pool


def can_fork(device: torch.device) -> bool:
    """Whether `forked_pool` works here."""
    return device.type == "cpu" and sys.platform == "linux"


@contextlib.contextmanager
def forked_pool(run: TableRun, workers: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that read SMILES and predict with models on a CPU, each on a thread.

    So no core waits for another. The processes are forks of this process: they start at
    once, with the models in memory. A fork has none of the threads of a library, and
    needs none. Without ``workers`` there is no pool.
    """
    if not workers:
        yield None
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, context, _start, (os.getpid(), run))
    try:
        # Start them now: they would keep the lock of files that are opened later.
        pool.submit(os.getpid).result()
        yield pool
    finally:
        pool.shutdown()


def predicted_rows(
    run: TableRun, rows: Iterator[Rows], workers: int, pool: ProcessPoolExecutor | None
) -> Iterator[PredictedRows]:
    """Yield the predictions for blocks of rows, in their order.

    Args:
        workers: processes; 0: this process alone.
        pool: see `forked_pool`; None: the processes read SMILES only.

    Raises:
        MemoryError: a process died.
        ValueError: see `TableRun`.
    """
    if pool is not None:
        yield from in_order(pool, 4 * workers, _predict, ((block,) for block in rows))
        return
    rows, again = itertools.tee(rows)
    calls = ((run.reader, run.smiles(block)) for block in again)
    for block, read in zip(rows, in_workers(workers, read_rows, calls), strict=True):
        yield run.predict(block, *read)


def _start(parent: int, run: TableRun) -> None:
    global _run
    start_worker(parent)
    torch.set_num_threads(1)
    threadpool_limits(1)
    _run = run


def _predict(rows: Rows) -> PredictedRows:
    return _run(rows)
