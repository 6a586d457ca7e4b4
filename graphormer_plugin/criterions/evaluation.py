"""Outputs and targets of all graphs of a split, from all batches and processes."""

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from graphormer_plugin.processes import gather_objects, several_processes

# What fairseq asks of a criterion: a loss, the divisor of its gradient, and values to log.
Reported = tuple[Tensor, Tensor, dict[str, Any]]
Sums = dict[str, Tensor]  # sums over the graphs of a batch, by name


@dataclass
class Evaluation:
    """Collects numbers in the store [B], outputs [B, C] or [B, N, C] and targets of graphs,
    batch by batch.

    A graph counts once, even if it comes repeatedly: fairseq gives a process that runs out
    of data a batch of another process, so that all do the same number of steps.
    """

    batches: list[list[NDArray]] = field(default_factory=list)

    @property
    def graphs(self) -> dict[int, tuple[NDArray, NDArray]]:
        """Output and target of each graph by its number, sorted: [C], or [N, C] with padding."""
        result: dict[int, tuple[NDArray, NDArray]] = {}
        for batch in self.batches:
            for graph, output, target in zip(*batch, strict=True):
                result.setdefault(int(graph), (output, target))
        return dict(sorted(result.items()))

    def add(self, graph_ids: Tensor, output: Tensor, target: Tensor) -> None:
        """Keep a batch, on the CPU."""
        tensors = (graph_ids, output, target)
        self.batches.append([tensor.detach().cpu().numpy() for tensor in tensors])

    def take(self) -> "Evaluation":
        """Graphs that all processes have collected since the last call; every process must
        call it at the same point."""
        batches = self.batches
        self.batches = []
        if several_processes():
            batches = [batch for part in gather_objects(batches) for batch in part]
        return Evaluation(batches)
