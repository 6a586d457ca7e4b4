"""Measuring for the scripts of this folder: memory, ways in turn, batches of a store."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.batches.fields.field_cache import load_or_compute
from graphormer_plugin.data.store import GraphStore


def memory(field: str, pid: int | str = "self") -> int:
    """A field of /proc/PID/status in bytes.

    Raises:
        OSError, ValueError: the process has ended, or is ending.
    """
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    raise ValueError(f"/proc/{pid}/status has no {field}")


def descendants(pid: int) -> Iterator[int]:
    """Processes that a process has started, and theirs."""
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")  # children of every thread
        children = " ".join(task.read_text() for task in tasks).split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from descendants(child)


def restart_peak() -> int:
    """Restart the peak of the resident memory (VmHWM) from its present bytes, the
    result."""
    before = memory("VmRSS")
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    return before


def in_turn(
    ways: dict[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each way in each round, of the CPU by default, and its last result.

    The ways take turns, so that a drifting machine slows all alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    results = {}
    for _ in range(rounds):
        for name, way in ways.items():
            start = clock()
            results[name] = way()
            seconds[name].append(clock() - start)
    return seconds, results


def alone(function: Callable, *case: Any) -> Any:
    """The result of a function in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, case)


def train_steps(
    model: torch.nn.Module,
    batch: dict[str, torch.Tensor],
    steps: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[int, list[float]]:
    """Rise of the resident memory in bytes, and seconds of each forward and backward pass."""

    def step() -> None:
        model.zero_grad()
        model(batch).square().mean().backward()

    before = restart_peak()
    seconds, _ = in_turn({"": step}, steps, clock)
    return memory("VmHWM") - before, seconds[""]


def ratio(slower: Sequence[float], faster: Sequence[float]) -> str:
    """Median of the ratios of pairs of times, with their range."""
    ratios = [a / b for a, b in zip(slower, faster, strict=True)]
    median = statistics.median(ratios)
    return f"ratio {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def store_collator(store: GraphStore, spec: BatchSpec) -> GraphCollator:
    """A collator of a store's graphs, with the fields that a model reads. Computed
    fields are kept beside the store."""
    return GraphCollator(
        store.columns | load_or_compute(store, spec),
        store.target,
        num_bond_types=store.schema.num_bond_types,
        spec=spec,
    )
