"""Calls in other processes."""

import os

import pytest

from graphormer_plugin.workers import in_workers

pytestmark = pytest.mark.long  # starts processes


@pytest.mark.parametrize("fork", [False, True])
def test_results_come_in_order(fork):
    """From a function that no module has."""
    calls = ((number,) for number in range(30))
    results = in_workers(2, lambda n: (n, os.getpid()), calls, fork=fork)
    numbers, processes = zip(*results, strict=True)
    assert numbers == (*range(30),) and os.getpid() not in processes


@pytest.mark.parametrize("fork", [False, True])
def test_a_worker_that_dies(fork):
    with pytest.raises(MemoryError, match="a worker process died"):
        list(in_workers(2, os._exit, [(1,)] * 9, fork=fork))
