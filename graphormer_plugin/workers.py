"""Calls in other processes, with their results in order."""

import functools
import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pickle import loads
from typing import Any, TypeVar

from loky import get_reusable_executor
from loky.backend.reduction import dumps

Result = TypeVar("Result")

_function: Callable[..., Any] | None = None  # what a worker calls


def in_workers(
    workers: int,
    function: Callable[..., Result],
    calls: Iterable[tuple[Any, ...]],
    start: Callable[[], Any] | None = None,
    fork: bool = False,
) -> Iterator[Result]:
    """Yield the results of calls in their order.

    Workers are processes of loky's pool. They do not import the main script, and take
    functions that are defined in a notebook. The function goes to each worker once.

    Args:
        workers: number of processes; 0 calls in this process.
        calls: arguments of each call.
        start: called once in each worker, before the function is read there.
        fork: workers are copies of this process, on one thread each. They start at once,
            with the models in memory; loky's take seconds, which were 9 % of the time of
            20,000 predictions.

    Raises:
        MemoryError: a worker died.
    """
    if not workers:
        return itertools.starmap(function, calls)
    arguments: tuple[Any, ...]
    if fork:
        arguments = os.getpid(), start, lambda: function
        context = multiprocessing.get_context("fork")
        pool = functools.partial(ProcessPoolExecutor, workers, context)
    else:
        arguments = os.getpid(), start, functools.partial(loads, bytes(dumps(function)))
        pool = functools.partial(get_reusable_executor, workers)
    pool = functools.partial(pool, initializer=_start, initargs=arguments)
    return _results(pool, 4 * workers, calls)


def _results(
    make_pool: Callable[[], Executor], ahead: int, calls: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    pool = make_pool()
    pending: deque[Future[Any]] = deque()
    try:
        for arguments in calls:
            pending.append(pool.submit(_call, *arguments))
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


def _start(
    parent: int,
    start: Callable[[], Any] | None,
    load: Callable[[], Callable[..., Any]],
) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if start is not None:
        start()
    _function = load()


def _call(*arguments: Any) -> Any:
    return _function(*arguments)


def _end_with(parent: int) -> None:
    """End this process when its parent has died."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
