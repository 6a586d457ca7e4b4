"""Rows of a split from all batches and processes."""

import pytest
import torch
from torch import distributed as dist

from graphormer_plugin.criterions.evaluation import Evaluation, joined
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
    rows = joined(evaluation.take().batches)
    columns = rows.graph_ids, rows.output[:, 0], rows.target[:, 0]
    text = " ".join(str(column.tolist()) for column in columns)
    (folder / f"rank{rank}").write_text(text)
    assert evaluation.take().batches == []
    dist.destroy_process_group()


def test_a_graph_counts_once():
    evaluation = Evaluation()
    for graphs in ([3, 1], [2], [3]):
        graph = torch.tensor(graphs)
        evaluation.add(graph, graph[:, None].float(), graph[:, None].double())
    rows = joined(evaluation.take().batches)
    assert rows.graph_ids.tolist() == [1, 2, 3]
    assert rows.output[:, 0].tolist() == rows.target[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert evaluation.batches == []


@pytest.mark.long
def test_all_processes_get_all_rows(tmp_path):
    processes = [forked(evaluate, rank, tmp_path) for rank in range(2)]
    for process in processes:
        process.join(timeout=3600)
        assert process.exitcode == 0
    outputs = [(tmp_path / f"rank{rank}").read_text() for rank in range(2)]
    graphs = [0, 1, 4, 5, 9]
    values, halves = [float(g) for g in graphs], [g / 2 for g in graphs]
    assert outputs == [f"{graphs} {values} {halves}"] * 2
