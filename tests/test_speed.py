"""The scripts of examples/speed that measure scale, with little; their committed tables."""

import csv
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.store_shards import open_stores
from support.training import SMILES

SPEED = Path(__file__).parents[1] / "examples" / "speed"
sys.path.append(str(SPEED))  # the scripts import each other
graph_size = importlib.import_module("graph_size")
many_graphs = importlib.import_module("many_graphs")
many_targets = importlib.import_module("many_targets")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    rows = [f"{smiles},{len(smiles)}" for smiles in SMILES]
    (folder / "few.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    options = {"data_root": str(folder), "workers": 0, "progress": False}
    return get_store(DatasetOptions(name=str(folder / "few.csv"), **options))


@pytest.mark.parametrize("nodes", [1, 16, 300])
def test_joined_graph(store, nodes):
    """One component of exactly so many nodes, with edges in the order of a store."""
    columns = graph_size.joined_graph(store, nodes, seed=3)
    assert len(columns["x"]) == nodes
    ends = np.stack([columns["edge_src"], columns["edge_dst"]]).astype(np.int64)
    assert ends.shape[1] == columns["edge_offset"][1] == len(columns["edge_bond"])
    key = ends[0] * nodes + ends[1]
    assert (np.diff(key) > 0).all()
    assert sorted(ends[1] * nodes + ends[0]) == key.tolist()
    reached = np.arange(nodes) == 0
    for _ in range(nodes):
        reached[ends[1][reached[ends[0]]]] = True
    assert reached.all()


def test_stores_of_repeated_molecules(store, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(many_graphs, "get_store", lambda options: store)
    monkeypatch.setattr(many_graphs, "REPEATS", 2)
    folder = tmp_path / "stores"
    many_graphs.write_stores(folder, 1000, 2)
    found = open_stores(DatasetOptions(name=str(folder)))
    assert len(found) == 2 * 720 and found.schema == store.schema
    np.testing.assert_array_equal(found.sizes[:120], store.sizes)
    np.testing.assert_array_equal(found.labels(np.arange(120)), store.target)
    many_graphs.measure(folder, 0.5)
    assert "720 graphs in 1 stores: open 0." in capsys.readouterr().out


@pytest.mark.long
def test_steps_with_many_targets(monkeypatch, capsys):
    monkeypatch.setattr(many_targets, "MOLECULES", 40)
    options = ["--arch", "grpe_tiny", "--targets", "3", "--updates", "1"]
    monkeypatch.setattr(sys, "argv", ["many_targets.py", *options])
    before = torch.get_num_threads()
    many_targets.main()
    torch.set_num_threads(before)
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [line.partition(" ")[0] for line in lines] == ["1", "3", "ratio"]


@pytest.mark.long
def test_table_and_plot(tmp_path):
    with open(SPEED / "graph_size.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    cases = [
        (arch, str(n)) for arch in graph_size.ARCHITECTURES for n in graph_size.SIZES
    ]
    assert [(row["arch"], row["nodes"]) for row in rows] == cases
    assert all(float(row["ms"]) > 0 and float(row["MiB"]) > 0 for row in rows)
    graph_size.draw(rows, tmp_path / "plot.svg")
    for folder in (tmp_path, SPEED):
        name = "plot.svg" if folder == tmp_path else "graph_size.svg"
        assert (folder / name).read_text().startswith("<?xml")
