"""Calls in other processes, with their results in order."""

import itertools
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from joblib.externals.loky import get_reusable_executor

Result = TypeVar("Result")


def in_workers(
    workers: int,
    function: Callable[..., Result],
    calls: Iterable[tuple[Any, ...]],
    start: Callable[[], Any] | None = None,
) -> Iterator[Result]:
    """Yields the results of calls in their order.

    Workers are processes of joblib's pool. They do not import the main script, and take
    functions that are defined in a notebook.

    Args:
        workers: Number of processes; 0 calls in this process.
        calls: Arguments of each call.
        start: Called once in each worker.

    Raises:
        MemoryError: A worker died.
    """
    if not workers:
        return itertools.starmap(function, calls)
    pool = get_reusable_executor(
        workers, initializer=start_worker, initargs=(os.getpid(), start)
    )
    return in_order(pool, 4 * workers, function, calls)


def in_order(
    pool: Executor,
    ahead: int,
    function: Callable[..., Result],
    calls: Iterable[tuple[Any, ...]],
) -> Iterator[Result]:
    """Yields the results of calls in a pool, in their order, and shuts it down at the end.

    Args:
        ahead: Largest number of calls whose results nobody has taken yet.

    Raises:
        MemoryError: A worker died.
    """
    pending: deque[Future[Result]] = deque()
    try:
        for arguments in calls:
            pending.append(pool.submit(function, *arguments))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise MemoryError(
            "a worker process died, most likely out of memory; try fewer --workers"
        ) from None
    finally:
        for future in pending:
            future.cancel()
        pool.shutdown(wait=True)


def start_worker(parent: int, start: Callable[[], Any] | None = None) -> None:
    """Leaves Ctrl-C to the parent, whose process number is given, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if start is not None:
        start()


def _end_with(parent: int) -> None:
    """Ends this process when its parent has died."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
