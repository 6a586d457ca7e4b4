"""The table of columns, and what it says about those of users."""

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetError, DatasetSource, TargetSchema
from graphormer_plugin.data.columns import (
    COLUMNS,
    ColumnType,
    Level,
    column_type,
    register_attribute,
    register_column,
)
from graphormer_plugin.data.graphs.chunk import GraphChunk
from graphormer_plugin.data.graphs.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.store import GraphStore
from support.stores import random_chunk, store_of, write


@pytest.fixture(autouse=True)
def forget_columns():
    before = COLUMNS.copy()
    yield
    COLUMNS.clear()
    COLUMNS.update(before)


def data(nodes=2, edges=1, **more):
    ends = torch.tensor([[0], [1]])[:, :edges]
    x = torch.zeros(nodes, 1, dtype=torch.long)
    return Data(x=x, edge_index=ends, y=torch.ones(1), **more)


def test_targets_have_one_of_four_levels():
    for word in ("graph", "node", "edge", "link"):
        targets = TargetSchema.of(["y"], level=word)
        assert targets.level is Level(word)
        stored = json.loads(json.dumps(targets.to_dict()))
        assert stored["level"] == word and type(targets.to_dict()["level"]) is str
        assert TargetSchema.of(**stored) == targets


def test_molecules_have_labels_of_graphs():
    source = DatasetSource(smiles=["C"], targets=[1.0], level="node")
    with pytest.raises(DatasetError, match="labels of nodes, which SMILES do not"):
        store_of(source)


def test_one_dimension_of_labels_is_a_target():
    smiles = ["C" * length for length in range(1, 11)]
    flat = DatasetSource(smiles=smiles, targets=np.arange(10.0), kind="regression")
    store = store_of(flat, "flat")
    assert store.target.tolist() == [[number] for number in range(10)]
    assert store.targets.names == ["y"]


def test_a_column_has_one_level():
    register_column("x", column_type("x"))  # as a module that is imported again
    with pytest.raises(ValueError, match="column 'x' has a row per node, not per edge"):
        register_column("x", ColumnType(Level.EDGE))
    assert column_type("x").level is Level.NODE


def test_users_columns_say_their_level():
    """Also in a process that has not registered them."""
    assert column_type("pair.resistance").level is Level.ALL_PAIRS
    assert column_type("edge.edge_weight").level is Level.EDGE
    with pytest.raises(KeyError, match="unheard"):
        column_type("unheard")


def test_the_table_has_all_columns_of_chunks_and_stores(tmp_path):
    chunk = random_chunk(np.random.default_rng(0))
    names = GraphChunk.__dataclass_fields__.keys() - {"attributes"}
    assert names <= COLUMNS.keys()
    more = {"weights": np.ones(6), "bounds": np.zeros((6, 1))}
    more |= {"graph_features": ["k"], "graph_values": np.ones((6, 1))}
    store = write(tmp_path / "s", chunk, **more)
    for name, array in GraphStore.open(store.path).columns.items():
        dtypes = COLUMNS[name].dtypes
        assert array.dtype in dtypes, name


def test_whole_positions_are_stored_as_floats():
    positions = torch.tensor([[0, 1, 2], [3, 4, 400]])
    store = store_of(DatasetSource(graphs=[data(pos=positions)] * 10))
    assert store.columns["pos"].dtype == np.float32
    centred = [[-1.5, -1.5, -199], [1.5, 1.5, 199]]
    assert store.columns["pos"][:2].tolist() == centred


def test_attributes_of_graphs_without_edges():
    register_attribute("edge_weight")
    lone = data(edges=0, edge_weight=torch.zeros(0, 2))
    (chunk,) = chunks_of_graphs([lone, lone], progress=False)
    assert chunk.attributes["edge.edge_weight"].shape == (0, 2)


def test_attributes_are_read_and_named_by_their_name():
    register_attribute("charge")
    graphs = [data(charge=torch.tensor([1.0, 2.0])), data()]
    with pytest.raises(DatasetError, match="graph 1: charge has no values, but graph"):
        list(chunks_of_graphs(graphs, progress=False))
