"""MNIST and CIFAR10: PyG's files, and real features of edges in a store."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data import describe, get_store
from graphormer_plugin.data.schema import FeatureSchema
from support.benchmark_files import write_superpixels
from support.stores import graphs_of


@pytest.mark.parametrize("name, features", [("mnist", 3), ("cifar10", 5)])
def test_what_pyg_reads_is_in_the_store(name, features, tmp_path, options):
    from torch_geometric.datasets import GNNBenchmarkDataset

    write_superpixels(tmp_path, name.upper())
    store = get_store(options(name))
    assert store.schema == FeatureSchema(features, None, [], num_edge_features=1)
    assert store.schema.to_dict()["num_edge_features"] == 1
    assert store.targets.kind == "multiclass" and store.targets.num_classes == 10
    assert "8 train / 2 valid / 2 test graphs" in describe(store)
    pyg = [
        graph
        for split in ("train", "val", "test")
        for graph in GNNBenchmarkDataset(tmp_path, name.upper(), split=split)
    ]
    assert store.columns["edge_attr"].dtype == np.float32
    for found, graph, label in zip(graphs_of(store), pyg, store.target, strict=True):
        assert found["x"] == torch.cat([graph.x, graph.pos], 1).tolist()
        order = np.lexsort(graph.edge_index.numpy()[::-1])
        ends = graph.edge_index[:, order].tolist()
        assert [found["edge_src"], found["edge_dst"]] == ends
        assert found["edge_attr"] == graph.edge_attr[order, None].tolist()
        assert {*found["edge_bond"]} == {1} and label[0] == graph.y.item()


def test_tenths(tmp_path, options):
    """(weight * 10), rounded down, as bond types."""
    parts = write_superpixels(tmp_path, "MNIST")
    store = get_store(options("mnist-tenths"))
    weights = torch.cat([graph["edge_attr"] for part in parts for graph in part])
    largest = int((weights * 10).long().max())
    assert store.schema.bond_dims == [largest + 1]
    assert "num_edge_features" not in store.schema.to_dict()
    graph = parts[0][0]
    order = np.lexsort(graph["edge_index"].numpy()[::-1])
    tenths = (graph["edge_attr"] * 10).long()[order]
    assert next(graphs_of(store))["edge_bond"] == (tenths + 1).tolist()
