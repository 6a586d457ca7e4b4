"""Outputs and targets of every row of a split, from all batches and processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as dist

from graphormer_plugin._broadcast import gather_list


@dataclass
class Rows:
    """Some rows of a split.

    Attributes:
        graph: int64 ``[B]`` number of each graph in the store.
        output: float32 ``[B, C]`` or ``[B, N, C]``, as the model returns it.
        target: ``[B, C]`` or ``[B, N]``, as in the sample.
    """

    graph: NDArray[np.int64]
    output: NDArray[np.float32]
    target: NDArray


@dataclass
class Evaluation:
    """Collects `Rows` batch by batch.

    A graph counts once, however often it comes: processes that run out of data are
    given a batch that another process has, so that all do the same number of steps.
    """

    batches: list[Rows] = field(default_factory=list)

    def add(self, graph: Tensor, output: Tensor, target: Tensor) -> None:
        """Keeps a batch, on the CPU."""
        arrays = [tensor.detach().cpu().numpy() for tensor in (graph, output, target)]
        self.batches.append(Rows(*arrays))

    def take(self) -> "Evaluation":
        """What all processes have collected since the last call, the same on each.

        Every process must call it at the same point.
        """
        batches, self.batches = self.batches, []
        if several_processes():
            batches = [rows for part in gather_list(batches) for rows in part]
        return Evaluation(batches)


def joined(batches: Sequence[Rows]) -> Rows:
    """Batches of a graph-level task as one, sorted by graph, each once."""
    graph = np.concatenate([rows.graph for rows in batches])
    graph, first = np.unique(graph, return_index=True)
    return Rows(
        graph,
        np.concatenate([rows.output for rows in batches])[first],
        np.concatenate([rows.target for rows in batches])[first],
    )


def several_processes() -> bool:
    """Whether this process trains or evaluates together with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_first_process() -> bool:
    """Whether this process is the one that writes."""
    return not several_processes() or dist.get_rank() == 0
