"""MNIST and CIFAR10: PyG's files, and real features of edges in a store."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data import describe, get_store
from graphormer_plugin.data.schema import FeatureSchema
from support.benchmark_files import write_superpixels


def graphs_of(store):
    """x, edge_index and edge_attr of each graph."""
    columns = store.columns
    for graph in range(len(store)):
        nodes = slice(*columns["node_offset"][graph : graph + 2])
        edges = slice(*columns["edge_offset"][graph : graph + 2])
        ends = np.stack([columns["edge_src"][edges], columns["edge_dst"][edges]])
        yield columns["x"][nodes], ends.astype(int), edges


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
    for number, (x, ends, rows) in enumerate(graphs_of(store)):
        graph = pyg[number]
        assert np.array_equal(x, torch.cat([graph.x, graph.pos], 1).numpy())
        order = np.lexsort(graph.edge_index.numpy()[::-1])
        assert np.array_equal(ends, graph.edge_index.numpy()[:, order])
        weight = store.columns["edge_attr"][rows]
        assert weight.dtype == np.float32 and weight.shape[1] == 1
        assert np.array_equal(weight[:, 0], graph.edge_attr.numpy()[order])
        assert (store.columns["edge_bond"][rows] == 1).all()
        assert store.target[number, 0] == graph.y.item()


def test_tenths(tmp_path, options):
    """(weight * 10), rounded down, as bond types."""
    parts = write_superpixels(tmp_path, "MNIST")
    store = get_store(options("mnist-tenths"))
    weights = torch.cat([graph["edge_attr"] for part in parts for graph in part])
    largest = int((weights * 10).long().max())
    assert store.schema.bond_dims == [largest + 1]
    assert "num_edge_features" not in store.schema.to_dict()
    graph, (_, _, rows) = parts[0][0], next(graphs_of(store))
    order = np.lexsort(graph["edge_index"].numpy()[::-1])
    tenths = (graph["edge_attr"] * 10).long().numpy()[order]
    assert np.array_equal(store.columns["edge_bond"][rows], tenths + 1)
