"""Rows of a split from all batches and processes."""

import pytest
import torch
from torch import distributed as dist

from graphormer_plugin.criterions.evaluation import Evaluation
from support.training import forked


def evaluate(rank, folder):
    """One of two processes: three graphs of its own, and both have graph 9."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    evaluation = Evaluation()
    graph = torch.tensor([rank, 4 + rank, 9])
    for part in graph.split(2 - rank):
        evaluation.add(part, part[:, None].float(), part[:, None].double() / 2)
    graphs = evaluation.take().graphs
    numbers = [(graph, x.item(), y.item()) for graph, (x, y) in graphs.items()]
    (folder / f"rank{rank}").write_text(str(numbers))
    assert evaluation.take().batches == []
    dist.destroy_process_group()


def test_a_graph_counts_once():
    evaluation = Evaluation()
    for graphs in ([3, 1], [2], [3]):
        graph = torch.tensor(graphs)
        evaluation.add(graph, graph[:, None].float(), graph[:, None].double())
    graphs = evaluation.take().graphs
    assert graphs == {graph: ([graph], [graph]) for graph in (1, 2, 3)}
    assert evaluation.batches == []


@pytest.mark.long
def test_all_processes_get_all_rows(tmp_path):
    processes = [forked(evaluate, rank, tmp_path) for rank in range(2)]
    for process in processes:
        process.join(timeout=3600)
        assert process.exitcode == 0
    outputs = [(tmp_path / f"rank{rank}").read_text() for rank in range(2)]
    expected = [(graph, float(graph), graph / 2) for graph in (0, 1, 4, 5, 9)]
    assert outputs == [str(expected)] * 2
