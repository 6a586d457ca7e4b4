"""Fields that a user registers: computed, kept and collated."""

import numpy as np
import pytest

from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.data.fields import FIELDS, BatchSpec, registered
from graphormer_plugin.data.fields.field_cache import (
    CACHED_FIELDS,
    compute_columns,
    load_or_compute,
)
from graphormer_plugin.data.fields.registered import register_field
from graphormer_plugin.data.graph_columns import ShardColumns
from support.stores import random_chunk, write

NAMES = ("size", "degree", "product")


@pytest.fixture
def calls():
    """Number of calls of each function; registers a field of each kind."""
    calls = dict.fromkeys(NAMES, 0)

    @register_field("size", per="graph")
    def size(num_nodes, edge_index):
        calls["size"] += 1
        return [num_nodes, edge_index.shape[1]]

    @register_field("degree", per="node")
    def degree(num_nodes, edge_index):
        calls["degree"] += 1
        return np.bincount(edge_index[1], minlength=num_nodes)

    @register_field("product", per="pair")
    def product(num_nodes, edge_index):
        """Products of positions."""
        calls["product"] += 1
        places = np.arange(num_nodes)
        return np.stack([places[:, None] + 0 * places, places[:, None] - places], -1)

    yield calls
    for known in (FIELDS, CACHED_FIELDS, registered._functions):
        for name in NAMES:
            known.pop(name, None)


@pytest.fixture
def store(tmp_path):
    return write(tmp_path / "store", random_chunk(np.random.default_rng(0)))


def spec():
    return BatchSpec(frozenset({"x", "node_mask", *NAMES}))


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


def test_batches(calls, store):
    columns = store.columns | load_or_compute(store, spec())
    for ids in ([4, 0, 2], [1], range(6)):
        check(batch_of(columns, list(ids), store.target), store, list(ids))
    assert set(calls.values()) == {6}
    field = FIELDS["product"]
    assert field.meaning == "Products of positions." and field.per == "pair"
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
    register_field("degree", per="node")(lambda n, edges: np.full(n, 7.0))
    assert (load_or_compute(store, spec())["node.degree"] == 7).all()
    assert calls["product"] == 12


def test_several_stores(calls, tmp_path, store):
    other = write(tmp_path / "other", random_chunk(np.random.default_rng(1)))
    own = {one: one.columns | load_or_compute(one, spec()) for one in (store, other)}
    shards = [columns | {"target": one.target} for one, columns in own.items()]
    columns = ShardColumns(shards, np.array([0, 6, 12]))
    batch = batch_of(columns, [9, 2, 6])
    for place, (part, graph) in enumerate([(other, 3), (store, 2), (other, 0)]):
        alone = batch_of(own[part], [graph], part.target)
        n = part.sizes[graph]
        assert batch["size"][place].equal(alone["size"][0])
        assert batch["degree"][place, :n].equal(alone["degree"][0])
        assert batch["product"][place, :n, :n].equal(alone["product"][0])
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
    register_field("degree", per="node")(lambda n, edges: result(n))
    with pytest.raises(ValueError, match=message):
        load_or_compute(store, spec())


def test_wrong_names(calls):
    with pytest.raises(ValueError, match="field 'dist' exists already"):
        register_field("dist", per="pair")(lambda n, edges: np.zeros((n, n)))
    with pytest.raises(ValueError, match="per 'edge': expected .* graph|node|pair"):
        register_field("length", per="edge")
    with pytest.raises(ValueError, match="field 'a.b'"):
        register_field("a.b", per="node")
