"""Outputs and targets of all graphs of a split, from all batches and processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from graphormer_plugin.processes import gather_objects, several_processes


@dataclass
class EvaluatedGraphs:
    """Outputs and targets of some graphs of a split."""

    graph_ids: NDArray[np.int64]  # [B], numbers in the store
    output: NDArray[np.float32]  # [B, C] or [B, N, C]
    target: NDArray


@dataclass
class Evaluation:
    """Collects `EvaluatedGraphs` batch by batch.

    A graph counts once, even if it comes repeatedly: fairseq gives a process that runs out
    of data a batch of another process, so that all do the same number of steps.
    """

    batches: list[EvaluatedGraphs] = field(default_factory=list)

    def add(self, graph_ids: Tensor, output: Tensor, target: Tensor) -> None:
        """Keep a batch, on the CPU."""
        tensors = (graph_ids, output, target)
        arrays = [tensor.detach().cpu().numpy() for tensor in tensors]
        self.batches.append(EvaluatedGraphs(*arrays))

    def take(self) -> "Evaluation":
        """Graphs that all processes have collected since the last call; every process must
        call it at the same point."""
        batches, self.batches = self.batches, []
        if several_processes():
            batches = [batch for part in gather_objects(batches) for batch in part]
        return Evaluation(batches)


def joined(batches: Sequence[EvaluatedGraphs]) -> EvaluatedGraphs:
    """All batches of a graph-level task joined, sorted by graph, each graph once."""
    graph_ids = np.concatenate([batch.graph_ids for batch in batches])
    graph_ids, first = np.unique(graph_ids, return_index=True)
    return EvaluatedGraphs(
        graph_ids,
        np.concatenate([batch.output for batch in batches])[first],
        np.concatenate([batch.target for batch in batches])[first],
    )
