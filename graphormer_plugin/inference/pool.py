"""Predictions for a table on all cores of a CPU, block after block."""

import contextlib
import itertools
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from graphormer_plugin.data.featurise import in_order, start_worker
from graphormer_plugin.data.table import Table
from graphormer_plugin.inference.ensemble import Ensemble, PredictedBlock, blocks

BlockRows = list[tuple[int, int, list[str]]]  # as `Table.rows` yields them


class _MemoryTable(Table):
    """Rows of a table that another process has read."""

    def __init__(self, header: list[str], rows: BlockRows) -> None:
        super().__init__(Path("table"), header)
        self.content = rows

    def rows_between(
        self, columns: Sequence[str], first: int, end: int | None
    ) -> Iterator[tuple[int, int, list[str]]]:
        return iter(self.content)


def can_fork(device: torch.device) -> bool:
    """Whether `forked_pool` works here."""
    return device.type == "cpu" and sys.platform == "linux"


_ensemble: Ensemble | None = None  # of a process of the pool


@contextlib.contextmanager
def forked_pool(
    ensemble: Ensemble, workers: int
) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that read SMILES and predict, each on one thread.

    So no core waits for another. The processes are forks of this one: they start at
    once, with the models in memory. A fork has none of the threads of a library, and
    needs none.

    Args:
        ensemble: The models, on a CPU.
        workers: Processes; 0: no pool.
    """
    if not workers:
        yield None
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, context, _start, (ensemble,))
    try:
        # Start them now: they would keep the lock of files that are opened later.
        pool.submit(os.getpid).result()
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def predicted_blocks(
    pool: ProcessPoolExecutor,
    workers: int,
    table: Table,
    column: str,
    first: int,
    end: int,
    block_rows: int,
) -> Iterator[PredictedBlock]:
    """Yields the predictions for blocks of rows, in their order.

    Args:
        pool: That of `forked_pool`.
        workers: Its processes.
        table: The input.
        column: Its column of SMILES.
        first: Row to start at.
        end: Row to stop before.
        block_rows: Rows of a block.

    Raises:
        WorkerError: A process died.
        ValueError: See `Ensemble`.
    """
    header = table.header

    def calls() -> Iterator[tuple[list[str], str, int, BlockRows]]:
        rows = table.rows_between(header, first, end)
        start = first
        while block := list(itertools.islice(rows, block_rows)):
            yield header, column, start, block
            start += len(block)

    return in_order(pool, workers, _predict, calls())


def _start(ensemble: Ensemble) -> None:
    global _ensemble
    start_worker()
    torch.set_num_threads(1)
    threadpool_limits(1)
    _ensemble = ensemble


def _predict(
    header: list[str], column: str, first: int, rows: BlockRows
) -> PredictedBlock:
    ensemble = _ensemble
    (block,) = blocks(
        _MemoryTable(header, rows),
        column,
        first,
        first + len(rows),
        len(rows),
        ensemble.featuriser,
        0,
        ensemble.extra_columns,
    )
    return ensemble(block, first)
