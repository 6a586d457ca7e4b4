"""Stores: round trips, wrong graphs, damage, stopped builds."""

import errno
import os
import pickle
import shutil

import numpy as np
import pytest

from graphormer_plugin.data import StoreError, describe
from graphormer_plugin.data.errors import NewerStoreError
from graphormer_plugin.data.graphs.chunk import FeaturisedRows, GraphChunk
from graphormer_plugin.data.graphs.seen import with_seen
from graphormer_plugin.data.store import FORMAT_VERSION, MANIFEST, GraphStore
from graphormer_plugin.data.store.writer import StoreWriter
from support.stores import SPLITS, graphs_of, make_chunk, manifest, random_chunk, write


class TestRoundTrip:
    @pytest.mark.parametrize("bond_dims", [[5, 6, 2], None])
    @pytest.mark.parametrize("dims", [(5, 6, 2), (300, 40), ()])
    def test_graphs(self, tmp_path, rng, dims, bond_dims):
        if bond_dims is not None:
            bond_dims = list(dims)
        chunks = [random_chunk(rng, dims=dims) for _ in range(3)]
        splits = {"train": np.arange(10), "valid": np.arange(10, 14), "test": [15]}
        store = write(tmp_path / "s", *chunks, bond_dims=bond_dims, splits=splits)
        assert len(store) == 18
        expected = np.concatenate([c.target for c in chunks]).astype(np.float32)
        assert np.array_equal(store.target, expected)
        assert np.array_equal(store.columns["x"], np.concatenate([c.x for c in chunks]))
        sizes = np.concatenate([chunk.num_nodes for chunk in chunks])
        assert np.array_equal(store.sizes, sizes)
        assert {k: v.tolist() for k, v in store.splits.items()} == {
            name: list(rows) for name, rows in splits.items()
        }
        stored, columns = graphs_of(store), store.schema.bond_columns()
        for chunk in chunks:
            start = 0
            for edges in chunk.num_edges:
                part = slice(start, start + edges)
                attr = np.zeros((edges, 0), int)
                if dims:
                    attr = chunk.edge_attr[part]
                pairs = chunk.edge_index[:, part].T.tolist()
                rows = ((i, j, tuple(a)) for (i, j), a in zip(pairs, attr.tolist()))
                found = next(stored)
                bonds = map(tuple, columns[found["edge_bond"]].tolist())
                found = [*zip(found["edge_src"], found["edge_dst"], bonds)]
                assert found == sorted(rows)  # nothing is lost
                start += edges

    def test_bond_numbers_do_not_depend_on_the_chunks(self, tmp_path, rng):
        parts = [random_chunk(rng, graphs=3, dims=(300, 40)) for _ in range(2)]
        one = write(tmp_path / "a", *parts)
        two = write(tmp_path / "b", GraphChunk.joined(parts))
        assert one.fingerprint == two.fingerprint

    @pytest.mark.parametrize(
        ("nodes", "dtype"), [(256, "u1"), (257, "<u2"), (65537, "<i4")]
    )
    def test_smallest_types_that_fit(self, tmp_path, nodes, dtype):
        """Also when a later chunk needs a wider one."""
        ones, wide = np.ones((10, 1), int), np.full((nodes, 1), nodes)
        small = make_chunk([2] * 5, [1] * 5, [[0] * 5, [1] * 5], x=ones)
        large = make_chunk([nodes], [1], [[nodes - 1], [0]], x=wide)
        store = write(tmp_path / "s", small, large)
        assert store.columns["edge_src"].dtype == np.dtype(dtype)
        assert store.columns["edge_src"].tolist() == [0] * 5 + [nodes - 1]
        assert store.columns["x"][:10].ravel().tolist() == [1] * 10
        assert store.columns["x"].dtype == ("<i2" if nodes < 2**15 else "<i4")
        assert store.schema.node_dims == [nodes + 1]

    def test_float_features_positions_and_node_labels(self, tmp_path, rng):
        chunk = random_chunk(rng)
        nodes = chunk.num_nodes.sum()
        chunk.x = rng.normal(size=(nodes, 3))
        chunk.attributes["pos"] = pos = rng.normal(size=(nodes, 3))
        chunk.target = rng.integers(0, 4, (nodes, 1))
        more = {"kind": "multiclass", "unit": "", "level": "node"}
        store = write(tmp_path / "s", chunk, **more)
        assert store.schema.node_dims is None and not store.schema.categorical
        assert np.array_equal(store.columns["x"], chunk.x.astype(np.float32))
        start = 0
        for count in chunk.num_nodes:
            graph = slice(start, start + count)
            centred = pos[graph] - pos[graph].mean(0)
            np.testing.assert_allclose(store.columns["pos"][graph], centred, atol=1e-6)
            start += count
        assert np.array_equal(store.target, chunk.target)
        stored = np.load(store.path / "target.npy")  # the format has one dimension
        assert np.array_equal(stored, chunk.target[:, 0])
        assert store.targets.level == "node"
        assert store.targets.num_classes == chunk.target.max() + 1

    def test_sent_to_another_process_it_is_opened_there(self, tmp_path, rng):
        store = write(tmp_path / "s", random_chunk(rng))
        data = pickle.dumps(store)
        assert len(data) < 500
        assert pickle.loads(data).fingerprint == store.fingerprint

    def test_fingerprint_is_that_of_the_content(self, tmp_path, rng):
        chunk = random_chunk(rng)
        first = write(tmp_path / "a", chunk)
        other = {**SPLITS, "train": [0, 1, 2]}
        for changes, same in (({"label": "x"}, True), ({"splits": other}, False)):
            again = write(tmp_path / "b", chunk, **changes)
            assert (again.fingerprint == first.fingerprint) is same
        chunk.target = chunk.target + 1
        assert write(tmp_path / "d", chunk).fingerprint != first.fingerprint

    @pytest.mark.parametrize("rows", [[1, 0, 2, 3], [0, 1, 3, 2], [0, 1, 2, 3]])
    def test_rows_in_any_order(self, tmp_path, rows):
        """A column has them, unless they are the numbers of the graphs."""
        parts = [
            make_chunk([1] * 2, [0] * 2, [[], []], row=part)
            for part in np.reshape(rows, (2, 2))
        ]
        store = write(tmp_path / "s", *parts, splits={"train": [0], "valid": [3]})
        assert store.rows(np.arange(4)).tolist() == rows
        assert ("row" in store.columns) == (rows != sorted(rows))

    def test_description(self, tmp_path, rng):
        chunk = random_chunk(rng)
        chunk.target[0] = np.nan
        store = write(tmp_path / "s", chunk, splits={"train": [0], "valid": [4, 5]})
        assert describe(store) == (
            "toy: 1 train / 2 valid graphs, target gap (eV), 1 label missing, "
            f"3 graphs in no split, fingerprint {store.fingerprint[:12]}"
        )


class TestBadGraphs:
    @pytest.mark.parametrize(
        "other, message",
        [
            ([[0.5]], r"x has rows of floats \[1\], expected integers \[1\]"),
            ([[0, 0]], r"x has rows of integers \[2\], expected integers \[1\]"),
        ],
    )
    def test_chunks_of_several_kinds(self, tmp_path, other, message):
        features = [np.array([[0]]), np.array(other)]
        chunks = [make_chunk([1], [0], [[], []], x=x) for x in features]
        with pytest.raises(ValueError, match=message):
            write(tmp_path / "s", *chunks)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (dict(edge_index=np.zeros((2, 4), int)), r"expected \[2, 3\] of integers"),
            (dict(x=np.zeros((5, 1), int)), r"x has shape \[5, 1\] .* expected \[6, "),
            (dict(x=np.array([["a"]] * 6)), "expected .* of numbers"),
        ],
    )
    def test_refused(self, tmp_path, changes, message):
        edges = dict(num_edges=[1] * 3, edge_index=[[0] * 3, [1] * 3])
        chunk = make_chunk(**{"num_nodes": [2] * 3, **edges, **changes})
        with pytest.raises(ValueError, match=message):
            write(tmp_path / "s", chunk)
        assert not any(path.is_dir() for path in tmp_path.iterdir())

    def test_continuous_edge_features(self, tmp_path, rng):
        chunk = random_chunk(rng, graphs=6000, nodes=20, dims=(2**40,))
        with pytest.raises(ValueError, match="are the edge features continuous"):
            write(tmp_path / "s", chunk)

    def test_values_beyond_the_given_ranges(self, tmp_path, rng):
        chunk = random_chunk(rng)
        with pytest.raises(ValueError, match=r"x column 0 is \d+, expected 0..9"):
            write(tmp_path / "s", chunk, node_dims=[10, 10, 10])
        with pytest.raises(ValueError, match="edge_attr column 0"):
            write(tmp_path / "s", chunk, bond_dims=[1, 6, 2])
        with pytest.raises(ValueError, match=r"column 0 is 4, expected 0\.\.3"):
            chunk.edge_attr[0] = [4, 0, 0]
            write(tmp_path / "s", chunk, bond_dims=[4, 300, 2])  # needs a table


def flip(name):
    """A change of the last byte of a column, in place: same inode, same size."""

    def damage(folder):
        path = folder / f"{name}.npy"
        data = path.read_bytes()
        with open(path, "r+b") as file:
            file.write(data[:-1] + bytes([data[-1] ^ 1]))

    return damage


class TestDamage:
    @pytest.fixture
    def store(self, tmp_path, rng):
        chunk = random_chunk(rng)
        chunk.attributes["pos"] = np.zeros((len(chunk.x), 3))
        return write(tmp_path / "s", chunk, bond_dims=[5, 6, 2])

    @pytest.mark.parametrize("name", ["x", "edge_src", "target"])
    def test_changed_byte(self, store, name):
        """Without reading the columns it is not noticed."""
        flip(name)(store.path)
        assert GraphStore.open(store.path).fingerprint == store.fingerprint
        with pytest.raises(StoreError, match=f"{name}.npy is damaged .sha256 differs"):
            GraphStore.open(store.path, verify=True)

    def test_features_that_it_has_not(self, store):
        np.load(store.path / "x.npy", mmap_mode="r+")[:] = 255
        with pytest.raises(StoreError, match=f"{store.path} is damaged .*--rebuild"):
            with_seen(store.schema, [GraphStore.open(store.path)])

    @pytest.mark.parametrize(
        "damage, message",
        [
            (lambda path: os.truncate(path / "x.npy", 99), "x.npy: "),
            (lambda path: os.truncate(path / "x.npy", 9999), r"\(bytes differs"),
            (lambda path: (path / "pos.npy").unlink(), "pos.npy: .*No such"),
            (lambda path: np.save(path / "x.npy", [{}]), "x.npy: .*Python objects"),
            (flip("split_train"), "split_train.npy names graphs"),
            (shutil.rmtree, "not a graph store"),
            (lambda path: os.truncate(path / MANIFEST, 99), "wrong content"),
            (manifest(dict.clear), "has another format"),
            (manifest(lambda m: m.update(version=0)), "has another format"),
            (
                manifest(lambda m: m["files"].update({"bound.npy": {"dtype": "|i1"}})),
                "bounds of an earlier version",
            ),
        ],
    )
    def test_damage(self, store, damage, message):
        damage(store.path)
        with pytest.raises(StoreError, match=message):
            GraphStore.open(store.path)

    def test_a_newer_version(self, store):
        manifest(lambda m: m.update(version=FORMAT_VERSION + 1))(store.path)
        with pytest.raises(NewerStoreError, match="format 2 of a newer version"):
            GraphStore.open(store.path)

    def test_edited_manifest(self, store):
        manifest(lambda m: m["targets"].update(unit="meV"))(store.path)
        with pytest.raises(StoreError, match="manifest.json is damaged"):
            GraphStore.open(store.path, verify=True)


def test_opening_reads_no_column(tmp_path, rng):
    store = write(tmp_path / "s", random_chunk(rng))
    for array in [*store.columns.values(), *store.splits.values()]:
        assert isinstance(array, np.memmap)
    assert "sizes" not in vars(store)  # computed when asked for


class TestBuilding:

    @pytest.mark.parametrize("key", [None, "key"])
    @pytest.mark.parametrize("error", [MemoryError, OSError, KeyboardInterrupt])
    def test_what_stops_a_build_from_outside_leaves_its_parts(
        self, tmp_path, rng, error, key
    ):
        """And the earlier store. An error of the data leaves no parts, and so does a build
        without a key."""
        chunk = random_chunk(rng)
        store = write(tmp_path / "s", chunk)
        for kind in (error, ValueError):
            with pytest.raises(kind), StoreWriter(tmp_path / "s", key=key) as writer:
                writer.append(FeaturisedRows(chunk, end=6))
                writer.parts.flush()
                raise kind
            left = kind is error and key is not None
            assert (tmp_path / ".tmp-s").exists() == left
        again = GraphStore.open(tmp_path / "s", verify=True)
        assert again.fingerprint == store.fingerprint

    def test_a_full_disk(self, tmp_path, rng, monkeypatch):
        def refuse(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(StoreWriter, "_write_graphs", refuse)
        message = (
            f"^cannot write {tmp_path}.*: No space left on device: 6 graphs took 0.. MB; "
            "make room, or name another folder with --data-root"
        )
        with pytest.raises(StoreError, match=message):
            write(tmp_path / "s", random_chunk(rng))
        assert not [*tmp_path.iterdir()]

    def test_a_folder_that_is_not_ours_stays(self, tmp_path, rng):
        path = tmp_path / "s"
        path.mkdir()
        (path / "thesis.txt").write_text("precious")
        with pytest.raises(StoreError, match="s is not a graph store; remove it first"):
            write(path, random_chunk(rng))
        assert (path / "thesis.txt").read_text() == "precious"

    def test_readers_keep_the_store_they_opened(self, tmp_path, rng):
        chunk = random_chunk(rng)
        store = write(tmp_path / "s", chunk)
        write(tmp_path / "s", random_chunk(rng))
        assert np.array_equal(store.columns["x"], chunk.x)
