"""Columns of one value in the training graphs: features, fields and encodings."""

import logging

import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetSource, register_dataset
from graphormer_plugin.models import build_model
from graphormer_plugin.tasks import graph_prediction


@register_dataset("stars")
def stars():
    """Stars of 4 to 13 nodes, of which the second number is 2."""
    graphs = []
    for size in range(4, 14):
        ends = torch.stack([torch.zeros(size - 1), torch.arange(1, size)]).long()
        x = torch.full((size, 2), 2.0)
        x[:, 0] = torch.arange(size)
        edges = torch.cat([ends, ends.flip(0)], 1)
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([float(size)])))
    return DatasetSource(graphs=graphs)


def test_constant_columns(tmp_path, caplog):
    """A walk in a star is back after even steps only; the first step needs no word."""
    config = graph_prediction.GraphPredictionConfig(
        dataset_name="stars", data_root=str(tmp_path), seed=1
    )
    task = graph_prediction.GraphPredictionTask.setup_task(config)
    encodings = "random_walks:4,laplacian:4,degrees"
    model = build_model(
        "grpe_tiny", task.schema, task.targets, node_encodings=encodings
    )
    task.batch_spec = model.batch_spec
    task.load_dataset("train")
    with caplog.at_level(logging.INFO):
        task.begin_epoch(1, model)
    lines = sorted(line for line in caplog.messages if "one value" in line)
    graphs = "one value in 8 of 8 training graphs, column"
    assert lines == [f"random_walks: {graphs} 2", f"x: {graphs} 1"]
    assert model.training
