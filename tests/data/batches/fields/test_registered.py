"""Fields that a user registers: computed, kept and collated."""

import re

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetError, DatasetSource
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec, registered
from graphormer_plugin.data.batches.fields.field_cache import (
    CACHED_FIELDS,
    compute_columns,
    load_or_compute,
)
from graphormer_plugin.data.batches.fields.registered import register_field
from graphormer_plugin.data.columns import COLUMNS
from graphormer_plugin.data.graphs.chunk import GraphChunk
from graphormer_plugin.data.graphs.graph_columns import ShardColumns, columns_of_chunk
from graphormer_plugin.data.graphs.pyg_graphs import chunks_of_graphs
from support.stores import random_chunk, store_of, write

NAMES = ("size", "degree", "product", "length", "cycle")


@pytest.fixture(autouse=True)
def forget_fields():
    known = FIELDS, CACHED_FIELDS, registered._functions, COLUMNS
    before = [one.copy() for one in known]
    yield
    for one, old in zip(known, before):
        one.clear()
        one.update(old)


@pytest.fixture
def calls():
    """Number of calls of each function; registers a field of each kind."""
    calls = dict.fromkeys(NAMES, 0)

    @register_field("size", per="graph")
    def size(graph):
        calls["size"] += 1
        return [graph.num_nodes, graph.edge_index.shape[1]]

    @register_field("degree", per="node")
    def degree(graph):
        calls["degree"] += 1
        return np.bincount(graph.edge_index[1], minlength=graph.num_nodes)

    @register_field("product", per="pair")
    def product(graph):
        """Products of positions."""
        calls["product"] += 1
        places = np.arange(graph.num_nodes)
        return np.stack([places[:, None] + 0 * places, places[:, None] - places], -1)

    @register_field("length", per="edge")
    def length(graph):
        calls["length"] += 1
        return graph.edge_index[1] - graph.edge_index[0]

    @register_field("cycle", per="edge")
    def cycle(graph):
        calls["cycle"] += 1
        places = np.arange(graph.num_nodes)
        return np.stack([places, np.roll(places, 1)]), np.stack([places, -places], 1)

    return calls


def edited(name, function, per="node"):
    """Registers a function in place of that of the fixture, as after an edit."""
    function.__qualname__ = registered._functions[name].__qualname__
    register_field(name, per=per)(function)


@pytest.fixture
def store(tmp_path):
    return write(tmp_path / "store", random_chunk(np.random.default_rng(0)))


def spec():
    return BatchSpec(
        frozenset({"x", "node_mask", "node_graph", "edge_index", "cycle_index", *NAMES})
    )


def batch_of(columns, ids, target=None):
    collator = GraphCollator(columns, target, num_bond_types=60, spec=spec())
    return collator(np.array(ids))["net_input"]["batch"]


def check(batch, store, ids):
    sizes = store.sizes[ids]
    B, N = len(ids), sizes.max()
    edges = np.diff(store.columns["edge_offset"])[ids]
    assert batch["size"].tolist() == np.stack([sizes, edges], 1).tolist()
    assert batch["degree"].shape == (B, N)
    assert batch["product"].shape == (B, N, N, 2)
    for place, graph in enumerate(ids):
        n = sizes[place]
        start, end = store.columns["edge_offset"][graph : graph + 2]
        counts = np.bincount(store.columns["edge_dst"][start:end], minlength=N)
        assert batch["degree"][place].tolist() == counts.tolist()
        for i in range(N):
            for j in range(N):
                expected = [i, i - j] if i < n and j < n else [0, 0]
                assert batch["product"][place, i, j].tolist() == expected
    source, target = batch["edge_index"]
    assert batch["length"].tolist() == (target - source).tolist()
    first = np.cumsum([0, *sizes])
    ring = [(a + i, a + (i - 1) % n) for n, a in zip(sizes, first) for i in range(n)]
    assert batch["cycle_index"].T.tolist() == [[*pair] for pair in ring]
    assert batch["cycle"].tolist() == [[i, -i] for n in sizes for i in range(n)]


def test_batches(calls, store):
    columns = store.columns | load_or_compute(store, spec())
    for ids in ([4, 0, 2], [1], range(6)):
        check(batch_of(columns, list(ids), store.target), store, list(ids))
    assert set(calls.values()) == {6}
    field = FIELDS["product"]
    assert field.meaning == "Products of positions."
    assert str(batch_of(columns, [0], store.target)["size"].dtype) == "torch.float32"


def test_kept_until_the_code_changes(calls, store, monkeypatch):
    first = load_or_compute(store, spec())
    folder = store.path.with_name("store.field.product")
    files = {"pair.product.npy", "pair_offset.npy", "record.json"}
    assert {file.name for file in folder.iterdir()} == files
    again = load_or_compute(store, spec())
    in_memory = compute_columns(store.columns, spec())
    for name in ("graph.size", "node.degree", "pair.product"):
        assert isinstance(again[name], np.memmap)
        assert np.array_equal(first[name], again[name])
        assert np.array_equal(first[name], in_memory[name])
    assert set(calls.values()) == {12}
    monkeypatch.setattr(registered, "code_hash", lambda function: "another")
    edited("degree", lambda graph: np.full(graph.num_nodes, 7.0))
    assert (load_or_compute(store, spec())["node.degree"] == 7).all()
    assert calls["product"] == 12


def test_several_stores(calls, tmp_path, store):
    other = write(tmp_path / "other", random_chunk(np.random.default_rng(1)))
    own = {one: one.columns | load_or_compute(one, spec()) for one in (store, other)}
    shards = [columns | {"target": one.target} for one, columns in own.items()]
    columns = ShardColumns(shards, np.array([0, 6, 12]))
    batch = batch_of(columns, [9, 2, 6])
    first = 0
    for place, (part, graph) in enumerate([(other, 3), (store, 2), (other, 0)]):
        alone = batch_of(own[part], [graph], part.target)
        n = part.sizes[graph]
        assert batch["size"][place].equal(alone["size"][0])
        assert batch["degree"][place, :n].equal(alone["degree"][0])
        assert batch["product"][place, :n, :n].equal(alone["product"][0])
        part = slice(first, first + n)  # a cycle has as many edges as nodes
        ends = batch["cycle_index"][:, part] - first
        assert ends.equal(alone["cycle_index"])
        assert batch["cycle"][part].equal(alone["cycle"])
        first += n
        assert not batch["product"][place, n:].any()


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda n: np.zeros(n + 1), r"graph 0: shape \[\d\], expected \[\d\] of"),
        (lambda n: np.full(n, np.nan), "of finite numbers"),
        (lambda n: np.zeros((n, n)), r"graph 1: shape"),
        (lambda n: 1 / 0, "the function of the field degree failed .*division by zero"),
    ],
)
def test_wrong_results(calls, store, result, message):
    edited("degree", lambda graph: result(graph.num_nodes))
    with pytest.raises(ValueError, match=message):
        load_or_compute(store, spec())


@pytest.mark.parametrize(
    "ends, values, words",
    [
        ([[0, 1]], 2, "edges of shape [1, 2], expected [2, M] of nodes 0.."),
        ([[0], [99]], 1, "edges of shape [2, 1]"),
        ([[0], [-1]], 1, "edges of shape [2, 1]"),
        ([[0.0], [1.0]], 1, "edges of shape [2, 1]"),
        ([[0], [1]], 2, "graph 0: shape [2, 3], expected [1, 3]"),
        (None, 99, "of finite numbers, or a tuple of edges [2, M] and their numbers"),
    ],
)
def test_wrong_edges(calls, store, ends, values, words):
    numbers = np.zeros((values, 3))
    edited("cycle", lambda graph: (ends, numbers) if ends else numbers, "edge")
    with pytest.raises(ValueError, match=re.escape(words)):
        load_or_compute(store, spec())


def test_no_edges_and_a_worker_that_knows_no_field(calls, store):
    edited("cycle", lambda graph: (np.empty((2, 0)), np.empty((0, 0))), "edge")
    columns = store.columns | load_or_compute(store, spec())
    collator = GraphCollator(columns, store.target, num_bond_types=60, spec=spec())
    for name in ("cycle", "cycle_index"):
        del FIELDS[name]
    batch = collator(np.array([3, 1]))["net_input"]["batch"]
    assert batch["cycle"].shape == (0, 0) and batch["cycle_index"].shape == (2, 0)


def test_wrong_names(calls):
    with pytest.raises(ValueError, match="field 'dist' exists already"):
        register_field("dist", per="pair")(lambda graph: np.zeros((2, 2)))
    with pytest.raises(ValueError, match="field 'edge_index' exists already"):
        register_field("edge", per="edge")(lambda graph: np.zeros((2, 2)))
    register_field("edge", per="node")(lambda graph: np.zeros(2))
    with pytest.raises(
        ValueError, match=r"per 'bond': expected .* graph\|node\|pair\|"
    ):
        register_field("length", per="bond")
    with pytest.raises(ValueError, match="field 'a.b'"):
        register_field("a.b", per="node")


def test_attributes_of_the_graphs(caplog):
    """A function reads features and attributes; edges have them in the store's order."""

    @register_field("weighted", per="node", reads=["edge_weight", "charge"])
    def weighted(graph):
        sums = np.bincount(graph.edge_index[1], graph.edge_weight, graph.num_nodes)
        return np.stack([sums, graph.charge, graph.x[:, 0], graph.pos[:, 2]], 1)

    def data(seed):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 6))
        ends = np.stack([rng.permutation(n), rng.permutation(n)])
        shapes = {"edge_weight": (n,), "charge": (n,), "z": (n,), "y": (1,)}
        shapes |= {"pos": (n, 3), "x": (n, 1)}
        tensors = {
            name: torch.tensor(rng.random(shape)).float()
            for name, shape in shapes.items()
        }
        return Data(edge_index=torch.tensor(ends), **tensors)

    def numbers(g):
        sums = torch.zeros(len(g.x)).index_add(0, g.edge_index[1], g.edge_weight)
        height = g.pos[:, 2] - g.pos[:, 2].mean()  # positions are centred
        return torch.stack([sums, g.charge, g.x[:, 0], height], 1)

    graphs = [data(seed) for seed in range(5)]
    store = store_of(DatasetSource(graphs=graphs), "weights")
    assert "weights: attributes that nothing reads: z" in caplog.text
    spec = BatchSpec(frozenset({"weighted"}))
    got = load_or_compute(store, spec)["node.weighted"]
    np.testing.assert_allclose(
        got, torch.cat([*map(numbers, graphs)]), rtol=1e-6, atol=1e-7
    )
    one = columns_of_chunk(GraphChunk.joined([*chunks_of_graphs(graphs)]), store.schema)
    assert np.array_equal(compute_columns(one, spec)["node.weighted"], got)
    del one["edge.edge_weight"]
    with pytest.raises(DatasetError, match="reads edge_weight, which these graphs do"):
        compute_columns(one, spec)
