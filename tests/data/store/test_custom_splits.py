"""Stores under the splits of a file, `--split rows:FILE`."""

import json
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import (
    DatasetError,
    DatasetOptions,
    DatasetSource,
    get_store,
)
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.batches.fields.field_cache import load_or_compute
from graphormer_plugin.data.columns import is_missing
from graphormer_plugin.data.store import describe
from support.stores import store_of

PARTS = ["train"] * 8 + ["valid"] * 2 + ["test"] * 3 + ["valid"]


@pytest.fixture
def options(tmp_path):
    """Function: options of a table with a row that cannot be parsed; labels of z, of
    which train has only some of weight 0, may be left out."""

    def options(split, z=True, **changes):
        lines = ["smiles,y,z,w,part"]
        for k, part in enumerate(PARTS):
            smiles = "C(" if k == 12 else "C" * (k + 1) + "O"
            label = k % 2 if z and k > 6 else ""
            lines.append(f"{smiles},{k / 3},{label},{int(k != 7)},{part}")
        path = tmp_path / ("table.csv" if z else "less.csv")
        path.write_text("\n".join(lines) + "\n")
        named = {"name": str(path), "split": split, "target_columns": ("y", "z")}
        named |= {"weight_column": "w", "extra_columns": ("w",), "skip_invalid": True}
        return DatasetOptions(**named | changes)

    return options


@pytest.fixture
def split(tmp_path):
    """Function: value of --split of row numbers by name, in a file."""

    def split(content, name="split.json"):
        path = tmp_path / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text)
        return f"rows:{path}"

    return split


def rows_of_parts():
    return {
        name: [row for row, part in enumerate(PARTS) if part == name]
        for name in ("train", "valid", "test")
    }


def test_it_is_the_store_that_a_column_makes(options, split):
    """Bit for bit, so that a training resumes; labels of a target that train does not
    know are missing."""
    found = get_store(options(split(rows_of_parts())))
    expected = get_store(options("column:part", z=False))
    assert found.fingerprint == expected.fingerprint
    assert found.targets == expected.targets and found.schema == expected.schema
    assert np.array_equal(found.target, expected.target, equal_nan=True)
    assert describe(found).split(" ", 1)[1] == describe(expected).split(" ", 1)[1]
    copy = pickle.loads(pickle.dumps(found))
    assert copy.fingerprint == found.fingerprint
    assert copy.splits["test"].tolist() == [10, 11]
    # All labels of z are there under a split that knows it.
    rows = rows_of_parts()
    rows |= {"train": rows["test"], "test": rows["train"]}
    other = get_store(options(split(rows)))
    assert np.isnan(other.target[:, 1]).sum() == 7
    assert other.fingerprint != found.fingerprint


def test_all_splits_share_a_store(options, split, tmp_path):
    """The batch fields beside the store are shared too, whatever the seed is."""
    rows, stores, times = rows_of_parts(), [], set()
    for seed, name in enumerate(("one.json", "two.json")):
        stores.append(get_store(options(split(rows, name), seed=seed)))
        load_or_compute(stores[-1], BatchSpec({"lap_pe"}, lap_pe_dim=2))
        (record,) = (tmp_path / "stores").glob("*.lap_pe2/record.json")
        times.add(record.stat().st_mtime_ns)
        rows["train"].pop()
    assert len(times) == 1
    assert stores[0].path == stores[1].path
    assert [len(store.splits["train"]) for store in stores] == [8, 7]
    assert stores[0].targets.mean != stores[1].targets.mean


def test_graphs_of_a_dataset_with_splits_of_its_own(split):
    graphs = [
        Data(x=torch.tensor([[k]]), edge_index=torch.zeros(2, 0).long(), y=k / 2)
        for k in range(4)
    ]
    own = {"train": [0, 1], "valid": [2], "test": [3]}
    asked = {"train": [3, 2], "valid": [0]}
    store = store_of(DatasetSource(graphs=graphs, splits=own), split=split(asked))
    assert {name: ids.tolist() for name, ids in store.splits.items()} == asked
    assert store.targets.mean == [1.25]


def test_targets_of_nodes_without_a_label_in_train(split):
    """They have none: the last number of all nodes, which is an error if there is no other."""
    graphs = [
        Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0).long(), y=y)
        for y in torch.arange(12.0).view(3, 2, 2)
    ]
    asked = split({"train": [0], "valid": [1], "test": [2]})
    source = DatasetSource(graphs=graphs, kind="regression", level="node")
    graphs[0].y[:, 1] = np.nan
    found = store_of(source, split=asked).target
    assert found[:, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert is_missing(found[:, 1]).all()
    graphs[0].y[:, 0] = np.nan
    with pytest.raises(DatasetError, match="split.json: no label in split train"):
        store_of(source, split=asked)


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "split.json: .*expected rows from 0 by split in JSON"),
        ([0, 1], "in JSON"),
        ({"train": 3}, "no rows in split valid"),
        ({"train": ["a"], "valid": [1]}, "split.json: split train .* row num"),
        ({"train": [0, 14], "valid": [1]}, "names row 14, expected 0..13"),
        ({"train": [0, 0], "valid": [1]}, "names a row twice"),
        ({"train": [0], "valid": [12]}, "no rows in split valid"),
        ({"train": [0]}, "no rows in split valid"),
    ],
)
def test_wrong_files(options, split, content, message):
    with pytest.raises(DatasetError, match=message):
        get_store(options(split(content)))
