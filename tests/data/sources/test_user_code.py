"""Folders of users that register datasets."""

import sys

import pytest

from graphormer_plugin.data import DatasetError, DatasetOptions, describe, get_store


def test_rebuilt_when_code_or_options_change(rings):
    first = get_store(rings())
    second = get_store(rings(extra="graphs[0].y = graphs[0].y + 1"))
    assert rings.builds() == 2 and second.fingerprint != first.fingerprint
    assert second.path == first.path  # the old one is replaced
    get_store(rings(extra="graphs[0].y = graphs[0].y + 1", rebuild=True))
    assert rings.builds() == 3


def test_modules_import_each_other(rings):
    (rings.folder / "helper.py").write_text("OFFSET = 1.0")
    options = rings(extra="from .helper import OFFSET; graphs[0].y += OFFSET")
    assert get_store(options).target[0, 0] == 4
    (rings.folder / "helper.py").write_text("OFFSET = 2.0")
    assert get_store(options).target[0, 0] == 5  # helpers count as code


def test_package(rings):
    (rings.folder / "__init__.py").write_text("from . import rings")
    assert len(get_store(rings())) == 10


def test_errors_name_file_and_line(rings):
    with pytest.raises(DatasetError, match=r"'rings' failed at .*rings.py:\d+: Ze"):
        get_store(rings(extra="1 / 0"))
    with pytest.raises(DatasetError, match=r"rings.py:\d+: SystemExit: 0"):
        get_store(rings(extra="raise SystemExit(0)"))
    (rings.folder / "broken.py").write_text("import nothing_like_this")
    with pytest.raises(DatasetError, match=r"at .*broken.py:1: ModuleNotFoundErr"):
        get_store(rings())
    (rings.folder / "broken.py").write_text("def f(:\n")
    with pytest.raises(DatasetError, match=r"broken.py:1: SyntaxError"):
        get_store(rings())
    (rings.folder / "broken.py").unlink()
    assert len(get_store(rings())) == 10  # corrected: works in the same process


# As examples/customized_dataset/customized_dataset.py of Graphormer v2.
V2 = """
import numpy as np
import torch
from torch_geometric.data import Data
from graphormer.data import register_dataset

def path(n):
    nodes = torch.arange(n - 1)
    ends = torch.cat([nodes, nodes + 1]), torch.cat([nodes + 1, nodes])
    return Data(
        x=torch.arange(n)[:, None] % 5,
        edge_index=torch.stack(ends),
        edge_attr=torch.ones(2 * n - 2, dtype=torch.int32),
        y=torch.tensor(float(n)),
    )

@register_dataset("customized_dataset")
def create_customized_dataset():
    return {
        "dataset": [path(n) for n in range(3, 23)],
        "train_idx": np.arange(14),
        "valid_idx": torch.arange(14, 18),
        "test_idx": [18, 19],
        "source": "pyg",
    }
"""


@pytest.mark.parametrize("source", ["pyg", "ogb"])
def test_a_file_for_graphormer_v2(tmp_path, source):
    """Its import and its dictionary."""
    code = V2.replace('"pyg"', f'"{source}"')
    (tmp_path / "customized_dataset.py").write_text(code)
    store = get_store(DatasetOptions("customized_dataset", user_data_dir=str(tmp_path)))
    assert "14 train / 4 valid / 2 test graphs" in describe(store)
    assert store.sizes.tolist() == list(range(3, 23))
    assert store.schema.node_dims == [5] and store.schema.bond_dims == [2]
    assert store.columns["x"][:6, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert store.columns["edge_src"][:4].tolist() == [0, 1, 1, 2]
    assert (store.columns["edge_bond"] == 2).all()
    assert store.target[:, 0].tolist() == list(range(3, 23))
    assert "graphormer" not in sys.modules and "graphormer.data" not in sys.modules
