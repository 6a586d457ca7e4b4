"""Tables, and datasets of a user's folder, that are prepared in the folder of their test."""

import pytest

from graphormer_plugin.data import DATASETS, DatasetOptions, get_store

MODULE = """
import torch
from torch_geometric.data import Data
from graphormer_plugin.data import DatasetSource, register_dataset

@register_dataset("rings")
def rings(options):
    with open({log!r}, "a") as file:
        file.write("built\\n")
    graphs = []
    for n in range(3, 13):
        nodes = torch.arange(n)
        ring = torch.stack([nodes, (nodes + 1) % n])
        edge_index = torch.cat([ring, ring.flip(0)], dim=1)
        graphs.append(Data(x=torch.zeros(n, 1, dtype=torch.long),
                           edge_index=edge_index, y=torch.tensor([float(n)])))
    {extra}
    return DatasetSource(graphs=graphs, target_names=["size"], unit="nodes",
                         splits=dict(train=range(8), valid=[8], test=[9]))
"""


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Folder of the stores; what a test registers is forgotten after it."""
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path))
    before = dict(DATASETS)
    yield
    DATASETS.clear()
    DATASETS.update(before)


@pytest.fixture
def prepared(tmp_path):
    """Function: header and rows of table.csv to its store."""

    def make(header, rows, **changes):
        path = tmp_path / "table.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return get_store(DatasetOptions(str(path), **changes))

    return make


@pytest.fixture
def rings(tmp_path):
    """Options of a user's folder with a dataset; `rings.log` counts the builds."""
    log = tmp_path / "builds.log"
    folder = tmp_path / "mine"
    folder.mkdir()

    def make(extra="", **changes):
        (folder / "rings.py").write_text(MODULE.format(log=str(log), extra=extra))
        return DatasetOptions("rings", user_data_dir=str(folder), **changes)

    make.folder, make.builds = folder, lambda: len(log.read_text().split())
    return make
