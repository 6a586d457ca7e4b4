"""Periodic systems in LMDB: the numbers of the released code, OC20's form, and no code."""

import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.data.benchmarks.is2re import system_of_entry
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.conformers import LENGTH_UNITS
from graphormer_plugin.data.graphs.periodic import (
    CUTOFF,
    PeriodicSystem,
    counted_atoms,
    graph_of_system,
)
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.tables.options import DatasetOptions
from support.benchmark_files import Planted
from support.golden import load_golden
from support.lmdb_files import SPLITS, golden_entries, write_lmdb


@pytest.fixture
def folder(tmp_path):
    return write_lmdb(tmp_path / "is2re", golden_entries())


def store_of(folder, **more):
    options = {"name": str(folder), "data_root": str(folder.parent), "progress": False}
    return get_store(DatasetOptions(**options, **more))


def graphs_of(store, number):
    rows = slice(*store.columns["node_offset"][number : number + 2])
    return {name: store.columns[name][rows] for name in ("x", "pos", "displacement")}


def test_systems_are_those_of_the_released_code(folder):
    arrays = load_golden("graphormer3d")
    store = store_of(folder)
    assert store.splits["train"].tolist() == [0, 1, 2, 3, 4]
    assert set(SPLITS) | {"valid"} == set(store.splits)
    assert np.array_equal(store.splits["valid"], store.splits["val_id"])
    for number in range(5):
        graph = graphs_of(store, number)
        system = {
            name: arrays[f"system/{number}/{name}"]
            for name in ("pos", "tags", "real_mask", "deltapos")
        }
        size = len(system["tags"])
        codes = arrays["batch/atoms"][number][:size]
        columns = [codes, system["tags"], ~system["real_mask"]]
        assert np.array_equal(graph["x"], np.stack(columns, 1))
        steps = graph["pos"] - system["pos"]
        assert np.ptp(steps, axis=0).max() < 1e-5
        difference = graph["displacement"] - system["deltapos"]
        assert np.abs(difference).max() < 1e-6
        energy = arrays[f"system/{number}/relaxed_energy"]
        assert store.target[number, 0] == pytest.approx(energy, abs=1e-6)


def test_pyg_data_of_oc20(tmp_path):
    """Old and new forms of `Data`, with text for ``length`` beside the numbers."""
    entries = golden_entries()
    forms = [Data(), Data.__new__(Data), {}]
    for form, entry in zip(forms, entries):
        tensors = {name: torch.as_tensor(value) for name, value in entry.items()}
        tensors["cell"] = tensors["cell"][None]
        if isinstance(form, dict):
            form |= tensors
        elif "_store" in vars(form):
            for name, value in tensors.items():
                form[name] = value
        else:  # of PyG 1
            form.__dict__.update(tensors)
    folder = write_lmdb(tmp_path / "pyg", forms)
    lmdb = pytest.importorskip("lmdb")
    for path in folder.glob("*/data.lmdb"):
        with lmdb.open(str(path), subdir=False) as file, file.begin(write=True) as txn:
            txn.put(b"length", pickle.dumps(3))
    store = store_of(folder)
    plain = store_of(write_lmdb(tmp_path / "plain", entries[:3]))
    for name in ("x", "node_offset", "target"):
        assert np.array_equal(store.columns[name], plain.columns[name]), name
    assert np.abs(store.columns["pos"] - plain.columns["pos"]).max() < 1e-5


def test_keys_are_read_in_the_order_of_their_numbers(tmp_path):
    entries = [{**golden_entries()[0], "y_relaxed": float(n)} for n in range(12)]
    store = store_of(write_lmdb(tmp_path / "many", entries))
    assert store.target[store.splits["train"], 0].tolist() == [*range(12)]


def test_unknown_labels_and_tags(tmp_path):
    entry = golden_entries()[0]
    bare = {name: entry[name] for name in ("pos", "cell", "atomic_numbers")}
    bare["tags"] = np.zeros(len(entry["tags"]), int)
    system = system_of_entry(bare)
    assert np.isnan(system.pos_relaxed).all() and np.isnan(system.energy)
    assert (system.tags == 1).all()
    store = store_of(write_lmdb(tmp_path / "bare", [entry, bare]))
    assert np.isnan(store.target[1]).all()
    last = graphs_of(store, 1)
    assert np.isnan(last["displacement"]).all()
    assert counted_atoms(last["x"]).all()


def spoilt(entry, **values):
    return {**entry, **values}


def large(atoms):
    """A system of 20,000 atoms would take 30 GB."""
    pos = np.arange(atoms)[:, None] * np.array([0.7, 0.0, 0.0])
    ones = np.ones(atoms, int)
    return {"pos": pos, "cell": np.eye(3), "atomic_numbers": ones, "tags": ones}


def times(name, factor):
    return lambda entry, path: spoilt(entry, **{name: entry[name] * factor})


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda entry, path: Planted(path), "entry 1 cannot be read: Unpickling"),
        (lambda entry, path: spoilt(entry, pos=Planted(path)), "names posix.mkdir"),
        (lambda entry, path: spoilt(entry, tags=None), "it has no tags"),
        (lambda entry, path: spoilt(entry, cell=[1, 2]), "entry 1 cannot be read"),
        (lambda entry, path: [entry], "entry 1 cannot be read"),
        (lambda entry, path: spoilt(entry, tags=entry["tags"] + 1), "expected 0..2"),
        (times("pos", np.nan), "atom 0 has position [nan"),
        (times("pos", 0), "atoms 0 and 1 are in one place"),
        (times("pos", 0.1), "in nanometres?"),
        (times("pos", 1.89), "--length-unit bohr converts them"),
        (times("cell", 0), "span no cell"),
        (times("cell", np.nan), "entry 1 cannot be read"),
        (times("atomic_numbers", -1), "expected 1..118"),
        (times("y_relaxed", np.inf), "graph 1: y has"),
        (lambda entry, path: spoilt(entry, pos=[[0, 0, 0]] * 9), "pos is a list"),
        (lambda entry, path: large(1001), "1,001 atoms, above --max-atoms 1000"),
    ],
)
def test_a_wrong_entry_is_one_line_and_nothing_runs(tmp_path, spoil, words):
    entries = golden_entries()
    entries[1] = spoil(entries[1], tmp_path / "planted")
    folder = write_lmdb(tmp_path / "is2re", entries)
    with pytest.raises(DatasetError) as error:
        store_of(folder)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "planted").exists()


def test_another_unit_of_length(folder, tmp_path):
    bohr = 1 / LENGTH_UNITS["bohr"]
    entries = golden_entries()
    for name in ("pos", "cell", "pos_relaxed"):
        entries = [spoilt(entry, **{name: entry[name] * bohr}) for entry in entries]
    store = store_of(write_lmdb(tmp_path / "bohr", entries), length_unit="bohr")
    for name in ("pos", "displacement"):
        expected = store_of(folder).columns[name]
        np.testing.assert_allclose(store.columns[name], expected, atol=1e-5)


def test_other_wrong_files(folder):
    with pytest.raises(DatasetError, match="lmdb:every-cell"):
        store_of(folder, source="lmdb:all")
    for spoil, words in [(b"text", "InvalidError"), (None, "the file is cut off")]:
        path = folder / "val_id/data.lmdb"
        path.write_bytes(spoil or (folder / "train/data.lmdb").read_bytes()[:-4096])
        with pytest.raises(DatasetError, match="is no whole LMDB file") as error:
            store_of(folder)
        assert str(path) in str(error.value) and words in str(error.value)


def test_a_tiny_cell_has_no_end_of_images(tmp_path):
    entry = golden_entries()[0]
    folder = write_lmdb(tmp_path / "is2re", [spoilt(entry, cell=np.eye(3) * 0.02)])
    with pytest.raises(DatasetError, match="the cell is too small"):
        store_of(folder, source="lmdb:every-cell")


def test_images_in_every_cell(folder):
    """Against all cells of a large block, for a slanted cell and other copies of its atoms."""
    rng = np.random.default_rng(0)
    cell = np.array([[3.0, 0, 0], [2.5, 4, 0], [1, 1, 6]])
    parts = np.array([[0, 0.5, 0.2], [0.7, 0, 0], [0.1, 0.9, 1e-7]])
    pos = parts @ cell
    tags = np.array([0, 1, 2])
    numbers = np.array([29, 78, 6])
    system = PeriodicSystem(pos, cell, numbers, tags, pos + 1, 0.0)
    graph = graph_of_system(system, every_cell=True)
    copies = pos + rng.integers(-3, 4, (3, 3)) @ cell
    system = PeriodicSystem(copies, cell, numbers, tags, copies + 1, 0.0)
    for name, values in vars(graph_of_system(system, every_cell=True)).items():
        np.testing.assert_allclose(values, getattr(graph, name), atol=1e-9)
    block = np.stack(np.meshgrid(*[np.arange(-12, 13)] * 3), -1).reshape(-1, 3)
    block = block[block.any(1)]
    copies = (pos + (block @ cell)[:, None]).reshape(-1, 3)
    distances = np.linalg.norm(copies[:, None] - pos, axis=-1)
    expected = copies[(distances < CUTOFF).any(1)]
    found = graph.pos[3:]
    assert len(found) == len(expected) > 100

    def ordered(pos):
        return pos[np.lexsort(pos.round(6).T)]

    assert np.abs(ordered(found) - ordered(expected)).max() < 1e-9
    assert graph.x[3:, 2].all() and not graph.displacement[3:].any()
    store = store_of(folder, source="lmdb:every-cell")
    assert len(store.columns["x"]) > len(store_of(folder).columns["x"])
