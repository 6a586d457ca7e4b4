"""Rows of a split from all batches and processes."""

import pytest
import torch

from graphormer_plugin.criterions.evaluation import Evaluation, joined
from support.training import command

# Each process has three graphs of its own, and both have graph 9.
PROCESS = """
import sys, torch
from torch import distributed as dist
from graphormer_plugin.criterions.evaluation import Evaluation, joined
rank, path = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
evaluation = Evaluation()
graph = torch.tensor([rank, 4 + rank, 9])
for part in graph.split(2 - rank):
    evaluation.add(part, part[:, None].float(), part[:, None].double() / 2)
rows = joined(evaluation.take().batches)
print(rows.graph_ids.tolist(), rows.output[:, 0].tolist(), rows.target[:, 0].tolist())
assert evaluation.take().batches == []
dist.destroy_process_group()
"""


def test_a_graph_counts_once():
    evaluation = Evaluation()
    for graphs in ([3, 1], [2], [3]):
        graph = torch.tensor(graphs)
        evaluation.add(graph, graph[:, None].float(), graph[:, None].double())
    rows = joined(evaluation.take().batches)
    assert rows.graph_ids.tolist() == [1, 2, 3]
    assert rows.output[:, 0].tolist() == rows.target[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert evaluation.batches == []


@pytest.mark.slow
def test_all_processes_get_all_rows(tmp_path):
    processes = [
        command("-c", PROCESS, str(rank), str(tmp_path / "it")) for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    graphs = [0, 1, 4, 5, 9]
    values, halves = [float(g) for g in graphs], [g / 2 for g in graphs]
    assert [text.strip() for text in outputs] == [f"{graphs} {values} {halves}"] * 2
