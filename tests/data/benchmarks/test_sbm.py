"""PATTERN and CLUSTER: statistics of the generators, and official files."""

import itertools

import numpy as np
import pytest
import torch

from graphormer_plugin.data import DatasetError, describe, get_store
from graphormer_plugin.data.benchmarks.sbm import (
    OFFICIAL_COUNTS,
    ClusterGraphs,
    PatternGraphs,
)
from support.benchmark_files import write_gnn_benchmark


def adjacency(graph):
    result = np.zeros((len(graph.x), len(graph.x)), dtype=bool)
    result[tuple(graph.edge_index)] = True
    return result


@pytest.fixture(scope="module")
def pattern():
    # 100 patterns are few: their mean size is 19.5 +- 0.9.
    return PatternGraphs({"train": 400, "valid": 100, "test": 100}, seed=1)


@pytest.fixture(scope="module")
def cluster():
    return ClusterGraphs({"train": 400, "valid": 50, "test": 50}, seed=1)


@pytest.mark.parametrize("name", ["pattern", "cluster"])
def test_graphs_are_simple_and_undirected(name, request):
    graphs = request.getfixturevalue(name)
    assert len(graphs) == sum(graphs.counts.values()) == len(list(graphs))
    for number in range(0, len(graphs), 50):
        graph = graphs[number]
        matrix = adjacency(graph)
        assert (matrix == matrix.T).all() and not matrix.diagonal().any()
        assert matrix.sum() == graph.edge_index.shape[1]
        assert graph.x.shape == (len(graph.y), 1)
    with pytest.raises(IndexError):
        graphs[len(graphs)]


@pytest.mark.parametrize("generator", [PatternGraphs, ClusterGraphs])
def test_seeds(generator):
    counts = {"train": 5, "valid": 1, "test": 1}
    one, same, other = (generator(counts, seed) for seed in (3, 3, 4))
    for number in range(7):
        assert np.array_equal(one[number].x, same[number].x)
        assert np.array_equal(one[number].edge_index, same[number].edge_index)
    assert len(one[0].x) != len(other[0].x) or (one[0].x != other[0].x).any()
    # more graphs of a split do not change the other splits
    more = generator({**counts, "train": 6}, 3)
    assert np.array_equal(one[5].edge_index, more[6].edge_index)


@pytest.mark.parametrize("count", [100, 700])
def test_a_split_has_equally_many_graphs_of_each_pattern(count):
    found = []

    class Noted(list):
        def __getitem__(self, number):
            found.append(number)
            return super().__getitem__(number)

    graphs = PatternGraphs({"train": count}, seed=1)
    graphs.patterns = Noted(graphs.patterns)
    assert len(list(graphs)) == count
    assert found == np.repeat(np.arange(100), count // 100).tolist()


def test_cluster_statistics(cluster):
    nodes, edges, inside, between, sizes = [], [], [], [], []
    for graph in cluster:
        matrix, label, symbol = adjacency(graph), graph.y, graph.x[:, 0]
        nodes.append(len(label))
        edges.append(matrix.sum())
        same = (label[:, None] == label) & ~np.eye(len(label), dtype=bool)
        inside.append(matrix[same].mean())
        between.append(matrix[label[:, None] != label].mean())
        sizes += np.bincount(label, minlength=6).tolist()
        # one marked node in each community, with its number
        assert sorted(symbol[symbol > 0].tolist()) == [1, 2, 3, 4, 5, 6]
        assert (label[symbol > 0] == symbol[symbol > 0] - 1).all()
    assert np.mean(nodes) == pytest.approx(117, abs=4)  # 6 communities of 19.5
    assert np.mean(edges) == pytest.approx(4295, rel=0.06)
    assert np.mean(inside) == pytest.approx(0.55, abs=0.005)
    assert np.mean(between) == pytest.approx(0.25, abs=0.005)
    assert (min(sizes), max(sizes)) == (5, 34)
    assert np.mean(sizes) == pytest.approx(19.5, abs=0.6)


def test_pattern_statistics(pattern):
    nodes, share, inside, outside, joint = [], [], [], [], []
    symbols = np.zeros(3)
    for graph in pattern:
        matrix, label = adjacency(graph), graph.y.astype(bool)
        nodes.append((~label).sum())
        share.append(label.mean())
        background = matrix[~label][:, ~label]
        outside.append(background.sum() / (len(background) * (len(background) - 1)))
        joint.append(matrix[label][:, ~label].mean())
        block = matrix[label][:, label]
        inside.append(block.sum() / (len(block) * (len(block) - 1)))
        symbols += np.bincount(graph.x[~label, 0], minlength=3)
    assert np.mean(nodes) == pytest.approx(97.5, abs=3)  # 5 communities of 19.5
    assert np.mean(share) == pytest.approx(1 / 6, abs=0.03)
    assert np.mean(joint) == pytest.approx(0.5, abs=0.005)
    assert np.mean(inside) == pytest.approx(0.5, abs=0.03)
    # 0.5 within and 0.35 between communities; pairs within are about a fifth
    assert 0.36 < np.mean(outside) < 0.40
    assert np.allclose(symbols / symbols.sum(), 1 / 3, atol=0.01)


def test_splits_share_the_patterns(pattern):
    def kept(number):
        """Features and edges of the pattern, up to the order of its nodes."""
        graph = pattern[number]
        label = graph.y.astype(bool)
        block = adjacency(graph)[label][:, label]
        return sorted(zip(graph.x[label, 0].tolist(), block.sum(axis=1).tolist()))

    # 4 graphs of each pattern in train, 1 in valid, 1 in test
    for number in (0, 7, 99):
        assert kept(4 * number) == kept(4 * number + 3)
        assert kept(4 * number) == kept(400 + number) == kept(500 + number)
    assert kept(0) != kept(4)


@pytest.mark.parametrize(
    "name, classes, symbols", [("pattern", 2, 3), ("cluster", 6, 7)]
)
def test_generated_stores(options, name, classes, symbols):
    store = get_store(options(name, "generated:20", seed=5))
    counts = OFFICIAL_COUNTS[name]
    expected = {split: count * 20 // 10_000 for split, count in counts.items()}
    assert {split: len(rows) for split, rows in store.splits.items()} == expected
    targets = store.targets
    found = targets.level, targets.kind, targets.num_outputs
    assert found == ("node", "multiclass", classes)
    assert store.schema.node_dims == [symbols] and store.schema.num_bond_types == 1
    assert store.target.shape == (store.manifest["counts"]["nodes"], 1)
    assert f"{name} (generated, seed 5)" in describe(store)
    assert get_store(options(name, "generated:20", seed=6)).path != store.path
    assert get_store(options(name, "generated:20:5", seed=6)).path == store.path


def one_hot(graph, symbols):
    return {
        "x": torch.eye(symbols)[torch.as_tensor(graph.x[:, 0])],
        "edge_index": torch.as_tensor(graph.edge_index),
        "edge_attr": torch.ones(graph.edge_index.shape[1], 1),
        "y": torch.as_tensor(graph.y),
    }


@pytest.mark.parametrize("name", ["pattern", "cluster"])
@pytest.mark.parametrize("source", ["", "pyg", "ogb"])
def test_official_files(tmp_path, options, name, source, caplog):
    generated = get_store(options(name, "generated:20"))
    graphs = {"pattern": PatternGraphs, "cluster": ClusterGraphs}[name]
    counts = {split: len(generated.splits[split]) for split in OFFICIAL_COUNTS[name]}
    made = graphs(counts, 1)
    numbers = iter(one_hot(graph, made.num_symbols) for graph in made)
    parts = [list(itertools.islice(numbers, count)) for count in counts.values()]
    write_gnn_benchmark(tmp_path, name.upper(), parts)
    store = get_store(options(name, source, seed=9))
    assert store.path != generated.path
    assert store.fingerprint == generated.fingerprint
    assert "the official release has 1" in caplog.text
    # the seed makes no difference to files
    assert get_store(options(name, source, seed=2)).path == store.path


def test_what_is_wrong_is_said(tmp_path, options):
    with pytest.raises(DatasetError, match="--dataset-source generated makes such"):
        get_store(options("cluster"))
    with pytest.raises(DatasetError, match="comes from pyg.ogb.generated, not from"):
        get_store(options("cluster", "rdkit"))
    for source in ("generated:", "generated:many", "generated:0", "generated:1:2:3"):
        with pytest.raises(DatasetError, match=f"--dataset-source {source}: "):
            get_store(options("cluster", source))
    made = ClusterGraphs({"train": 3}, 1)
    part = [one_hot(graph, 7) | {"x": torch.rand(len(graph.x), 7)} for graph in made]
    write_gnn_benchmark(tmp_path, "CLUSTER", [part] * 3)
    with pytest.raises(DatasetError, match="CLUSTER/raw .* are not one-hot"):
        get_store(options("cluster"))
