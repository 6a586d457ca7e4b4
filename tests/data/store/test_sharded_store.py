"""Several stores as one dataset, and preparation in shards."""

import itertools

import numpy as np
import pandas
import pytest
import torch
from speed.measuring import memory

from graphormer_plugin.data import (
    DatasetError,
    DatasetOptions,
    DatasetSource,
    get_store,
)
from graphormer_plugin.data.batches import collator as collator_module
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec
from graphormer_plugin.data.batches.fields.degrees import mean_log_degree
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.data.graphs.graph_columns import ShardColumns, release_pages
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.splits import rowwise_split
from graphormer_plugin.data.store.sharded_store import ShardedStore, open_stores
from graphormer_plugin.data.store.translate import translate_stores
from support.stores import random_chunk, store_of, write

ROWS = 90
SMILES = [f"{'C' * (n % 9 + 1)}{'c1ccccc1' * (n % 3 > 1)}O" for n in range(ROWS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a split column as Parquet: prepared as a whole and in 4 shards."""
    folder = tmp_path_factory.mktemp("tables")
    frame = pandas.DataFrame({"smiles": SMILES, "y": np.arange(ROWS) / 7 - 3})
    frame.loc[5:9, "y"] = np.nan
    frame["split"] = ["valid" if n % 10 == 3 else "train" for n in range(ROWS)]
    frame.to_parquet(folder / "table.parquet", row_group_size=20)
    return folder


def options(folder, **changes):
    common = {"name": str(folder / "table.parquet"), "data_root": str(folder)}
    return DatasetOptions(**{**common, **changes})


@pytest.fixture(scope="module")
def whole(folder):
    return get_store(options(folder))


@pytest.fixture(scope="module")
def shards(folder):
    order = (Shard(number, 4) for number in (3, 1, 2, 4))
    stores = [get_store(options(folder, shard=shard)) for shard in order]
    assert len({store.path.parent for store in stores}) == 1
    return stores[0].path.parent


def opened(folder, shards):
    return open_stores(options(folder, name=str(shards)))


def test_shards_are_the_whole(folder, whole, shards):
    found = opened(folder, shards)
    assert isinstance(found, ShardedStore) and len(found.stores) == 4
    assert [store.path.name for store in found.stores] == [
        f"0000{number}-of-00004" for number in (1, 2, 3, 4)
    ]
    assert len(found) == ROWS and found.schema == whole.schema
    assert found.featuriser == whole.featuriser == "ogb"
    np.testing.assert_array_equal(found.sizes, whole.sizes)
    assert whole.splits and found.splits.keys() == whole.splits.keys()
    for name, split in whole.splits.items():
        np.testing.assert_array_equal(found.splits[name], split)
    targets = found.targets
    assert (targets.names, targets.kind) == (["y"], "regression")
    np.testing.assert_allclose(targets.mean, whole.targets.mean, rtol=1e-14)
    np.testing.assert_allclose(targets.std, whole.targets.std, rtol=1e-14)
    some = np.array([80, 3, 50, 51, 0, 22, 23])
    np.testing.assert_array_equal(found.rows(some), some)
    np.testing.assert_array_equal(found.labels(some), whole.labels(some))
    counts = whole.manifest["counts"]
    assert found.manifest["counts"] == counts
    assert np.isclose(mean_log_degree(found), mean_log_degree(whole), rtol=1e-12)
    assert found.fingerprint != whole.fingerprint
    assert found.fingerprint == opened(folder, shards).fingerprint


OTHERS = {
    "edge_label_index",
    "pos",
    "edge_attr",
    "graph_features",
}  # molecules have none


def test_batches_are_those_of_one_store(folder, whole, shards):
    """Every field, in an order that mixes stores."""
    sizes = dict(max_dist=5, max_hop=3, path_length=4, lap_pe_dim=3, max_ring_size=8)
    spec = BatchSpec(frozenset(FIELDS.keys() - OTHERS), **sizes)
    several = opened(folder, shards)
    parts = [{**x.columns, **compute_columns(x.columns, spec)} for x in several.stores]
    one = {**whole.columns, **compute_columns(whole.columns, spec)}
    kinds = {"num_bond_types": whole.schema.num_bond_types, "spec": spec}
    ids = np.array([80, 3, 50, 51, 0, 22, 23, 89, 44])
    expected = GraphCollator(one, whole.target, **kinds)(ids)
    found = GraphCollator(ShardColumns(parts, several.first), None, **kinds)(ids)
    assert_same(found, expected)


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7))
    else:
        assert found == expected


@pytest.mark.long
def test_memory_does_not_grow_with_the_store(rng, tmp_path, monkeypatch):
    """Pages of a store that were read leave the process; its graphs stay the same."""
    chunk = random_chunk(rng, graphs=1_000, nodes=40)
    splits = {"train": np.arange(39_999), "valid": [39_999]}
    store = write(tmp_path / "large", *40 * [chunk], splits=splits)
    spec = BatchSpec(fields=frozenset({"x", "bond"}))
    kinds = {"num_bond_types": store.schema.num_bond_types, "spec": spec}
    collator = GraphCollator(dict(store.columns), store.target, **kinds)
    order = rng.permutation(40_000)
    first = collator(order[:8])
    released = []
    monkeypatch.setattr(collator_module, "RELEASED_AFTER", 100)
    monkeypatch.setattr(collator_module, "release_pages", released.append)
    for start in range(0, 960, 40):
        collator(order[start : start + 40])
    assert len(released) == 8 and released[0][0] is collator.columns
    for column in store.columns.values():  # as after many batches
        column.max()
    before, size = memory("RssFile"), sum(c.nbytes for c in store.columns.values())
    release_pages(released[0])
    assert before - memory("RssFile") > 0.7 * size > 7e6
    assert_same(collator(order[:8]), first)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_random_graphs(rng, tmp_path, level):
    """Positions, weights, narrow and wide types: two stores are their concatenation."""
    stores, chunks = [], []
    for part, graphs in enumerate((5, 4)):
        chunk = random_chunk(rng, graphs=graphs, nodes=300 if part else 8)
        chunk.attributes["pos"] = rng.random((len(chunk.x), 3))
        chunk.target = None
        if level == "node":
            chunk.target = rng.integers(0, 3, (len(chunk.x), 1))
        chunks.append(chunk)
    both = type(chunks[0]).joined(chunks)
    for name, chunk in zip(("a", "b", "both"), [*chunks, both]):
        count, more = len(chunk), {"kind": "multiclass", "num_classes": 3}
        if level == "graph":
            more = {"target": np.stack([chunk.num_nodes, chunk.num_edges], 1)}
        more["level"] = level
        more["target_names"] = ["y"] if level == "node" else ["y", "z"]
        more["splits"] = {"train": np.arange(1, count), "valid": np.array([0])}
        more["weights"] = np.arange(count) + 1.0
        dims = {"node_dims": [100] * chunk.x.shape[1], "bond_dims": [5, 6, 2]}
        stores.append(write(tmp_path / name, chunk, **dims, **more))
    several, one = ShardedStore(stores[:2]), stores[2]
    assert several.splits["train"].tolist() == [1, 2, 3, 4, 6, 7, 8]
    spec = BatchSpec(fields=frozenset({"x", "bond", "pos", "dist"}))
    kinds = {"num_bond_types": one.schema.num_bond_types, "spec": spec}
    kinds["level"] = one.targets.level
    ids = np.array([8, 1, 5, 0])
    expected = GraphCollator(dict(one.columns), one.target, **kinds)(ids)
    found = GraphCollator(several.columns, None, **kinds)(ids)
    expected["weight"] = torch.tensor([4.0, 2.0, 1.0, 1.0], dtype=torch.float64)
    assert_same(found, expected)


def test_splits_do_not_depend_on_the_shards():
    expected = rowwise_split(0, 10_000, 3)
    for count in (1, 7):
        parts = [Shard(number, count).rows(10_000) for number in range(1, count + 1)]
        for name, rows in expected.items():
            found = [rowwise_split(a, b - a, 3)[name] + a for a, b in parts]
            np.testing.assert_array_equal(np.concatenate(found), rows)
    assert abs(len(expected["train"]) - 8000) < 150
    assert abs(len(expected["valid"]) - 1000) < 100
    assert sorted(itertools.chain(*map(list, expected.values()))) == [*range(10_000)]


def test_names_and_folders(folder, whole, shards):
    paths = whole.path, shards / "00001-of-00004", folder / "table.parquet"
    names = list(map(str, paths))
    found = open_stores(options(folder, name=", ".join(names)))
    assert [len(store) for store in found.stores] == [ROWS, 22, ROWS]
    one = open_stores(options(folder, name=names[0]))
    assert one.fingerprint == whole.fingerprint
    comma = folder / "a,b.csv"
    comma.write_text("smiles,y\n" + "C,1\n" * 9)
    assert len(open_stores(options(folder, name=str(comma)))) == 9


@pytest.mark.parametrize(
    "change, message",
    [
        ({"split": "random"}, "is prepared already; leave --split out"),
        ({"source": "csv"}, "is prepared already; leave --dataset-source out"),
        ({"shard": Shard(1, 2)}, "is prepared already; leave --shard out"),
    ],
)
def test_options_of_prepared_stores(folder, shards, change, message):
    with pytest.raises(DatasetError, match=message):
        open_stores(options(folder, **{"name": str(shards), **change}))


def test_invalid_molecules_have_their_row_of_the_table(tmp_path):
    path = tmp_path / "m.csv"
    smiles = ["C", "CC", "CCC", "N", "O", "CN", "C1CC", "CO"]
    path.write_text("smiles,y\n" + "".join(f"{s},1\n" for s in smiles))
    with pytest.raises(DatasetError, match=r"row 6;"):
        get_store(options(tmp_path, name=str(path), shard=Shard(2, 2)))


@pytest.mark.parametrize("skipped", [0, 5])
def test_batches_of_shards_of_which_one_skipped_a_row(tmp_path, skipped):
    """Only that one has a column with the rows of its graphs."""
    path = tmp_path / "m.csv"
    smiles = ["C", "CC", "CCC", "N", "O", "CN", "CCN", "CO"]
    smiles[skipped] = "C1CC"
    lines = [f"{s},1,{'train' if n % 2 else 'valid'}\n" for n, s in enumerate(smiles)]
    path.write_text("smiles,y,split\n" + "".join(lines))
    changes = dict(name=str(path), split="column:split", skip_invalid=True)
    for n in (1, 2):
        shard = get_store(options(tmp_path, **changes, shard=Shard(n, 2)))
    found = open_stores(options(tmp_path, name=str(shard.path.parent)))
    assert sum("row" in store.columns for store in found.stores) == 1
    for ids in ([0, 6], [6, 2, 0]):
        columns, _ = translate_stores(found, found.schema, found.targets, "m")
        columns = columns.of_graphs(np.array(ids))
        assert np.diff(columns["node_offset"]).tolist() == found.sizes[ids].tolist()
    rows = [row for row in range(8) if row != skipped]
    assert found.rows(np.arange(7)).tolist() == rows


def test_excluded_rows_have_their_numbers():
    """They may be invalid."""
    rows = dict(smiles=["C", "C1CC", "CCC", "CO", "CN"], targets=[1.0] * 5)
    splits = {"train": [0, 3], "valid": [4]}
    one = store_of(DatasetSource(**rows, exclude=[1, 2], splits=splits))
    stores = ShardedStore([one, one])
    assert stores.rows(np.arange(6)).tolist() == [0, 3, 4, 5, 8, 9]


def test_a_missing_shard(folder, shards, tmp_path):
    for name in ("00001-of-00004", "00004-of-00004"):
        (tmp_path / name).symlink_to(shards / name)
    with pytest.raises(DatasetError, match=r"2 of 4 shards are missing \(2, 3\)"):
        open_stores(options(folder, name=str(tmp_path)))
    (tmp_path / "00001-of-00002").symlink_to(shards / "00001-of-00004")
    with pytest.raises(DatasetError, match="shards of several divisions"):
        open_stores(options(folder, name=str(tmp_path)))


def test_stores_that_are_not_one_dataset(folder, whole):
    other = folder / "other.csv"
    other.write_text("smiles,z\n" + "C,1\n" * 9)
    names = f"{whole.path},{other}"
    with pytest.raises(DatasetError, match=r"have other targets: \(\['y'\].*\['z'\]"):
        open_stores(options(folder, name=names))


def test_a_changed_table_is_another_folder(tmp_path):
    """Shards of two versions of a table cannot meet in one dataset."""
    paths = []
    for last in (1, 2):
        frame = pandas.DataFrame({"smiles": ["C"] * 9, "y": [0] * 8 + [last]})
        frame.to_parquet(tmp_path / "table.parquet")
        paths.append(get_store(options(tmp_path, shard=Shard(1, 2))).path)
    assert paths[0].parent != paths[1].parent
