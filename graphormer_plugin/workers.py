"""Calls in other processes, with their results in order."""

import itertools
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend.reduction import dumps

Result = TypeVar("Result")

_function: Callable[..., Any] | None = None  # of a worker


def in_workers(
    workers: int,
    function: Callable[..., Result],
    calls: Iterable[tuple[Any, ...]],
    start: Callable[[], Any] | None = None,
) -> Iterator[Result]:
    """Yields the results of calls in their order.

    Workers are processes of joblib's pool. They do not import the main script, and take
    functions that are defined in a notebook. The function, with a model perhaps, goes to
    each worker once.

    Args:
        workers: Number of processes; 0 calls in this process.
        calls: Arguments of each call.
        start: Called once in each worker, before the function is read there.

    Raises:
        MemoryError: A worker died.
    """
    if not workers:
        return itertools.starmap(function, calls)
    return _in_pool(workers, bytes(dumps(function)), calls, start)


def _in_pool(
    workers: int,
    function: bytes,
    calls: Iterable[tuple[Any, ...]],
    start: Callable[[], Any] | None,
) -> Iterator[Any]:
    given = os.getpid(), start, function
    pool = get_reusable_executor(workers, initializer=_start, initargs=given)
    pending: deque[Future[Any]] = deque()
    try:
        for arguments in calls:
            pending.append(pool.submit(_call, *arguments))
            if len(pending) >= 4 * workers:
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


def _start(parent: int, start: Callable[[], Any] | None, function: bytes) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if start is not None:
        start()
    _function = pickle.loads(function)


def _call(*arguments: Any) -> Any:
    return _function(*arguments)


def _end_with(parent: int) -> None:
    """Ends this process when its parent has died."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
