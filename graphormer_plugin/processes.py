"""Processes that train together: their number, and values gathered from all."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

_filler = False


def several_processes() -> bool:
    """Whether this process trains or evaluates together with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_first_process() -> bool:
    """Whether this process, of those that train together, writes files."""
    return not several_processes() or dist.get_rank() == 0


def gather_objects(data: Any, group: Any = None) -> list[Any]:
    """``data`` of every process of a group, in the order of their ranks.

    Every process must call it at the same point.
    """
    parts: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, data, group=group)
    return parts


@contextlib.contextmanager
def filler_batch() -> Iterator[None]:
    """Compute with a batch that does not count, where this process has run out of batches.

    Statistics over the batches of all processes leave it out; this process takes part in
    their computation only because the others wait for it.
    """
    global _filler
    before = _filler
    _filler = True
    try:
        yield
    finally:
        _filler = before


def is_filler_batch() -> bool:
    """Whether the batch of this process does not count now; see `filler_batch`."""
    return _filler


def gathered(values: Tensor) -> Tensor:
    """Values [...] of every process that counts now, [P, ...]; zeros of the others.

    Every process must call it at the same point.
    """
    values = torch.zeros_like(values) if _filler else values.contiguous()
    if not several_processes():
        return values.unsqueeze(0)
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.stack(parts)
