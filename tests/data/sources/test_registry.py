"""Names, sources and options of datasets."""

import hashlib
import importlib
import linecache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import (
    DATASETS,
    DatasetError,
    DatasetOptions,
    DatasetSource,
    get_store,
    register_dataset,
)
from graphormer_plugin.data.graphs.smiles import PLAIN
from graphormer_plugin.data.sources import registry
from graphormer_plugin.data.sources.locate import locate
from graphormer_plugin.data.sources.registry import code_hash


def test_data_root(tmp_path):
    """The home of nobody stays a name, as in a shell."""
    assert DatasetOptions("m", data_root="~nobody-here").root == Path("~nobody-here")
    assert locate(DatasetOptions("nci"))[1].parent == tmp_path / "stores"


GRAPH = Data(x=torch.zeros(2, 1).long(), edge_index=torch.tensor([[0], [1]]), y=1.0)
CELL = """
@register_dataset("cell")
def cell():
    builds.append({number})
    return DatasetSource(graphs=[GRAPH] * 10)
"""


def test_positions_of_smiles(tmp_path):
    """Conformers of SMILES that the package parses; nothing else can read the option."""
    table = {"smiles": ["CCO"] * 10, "targets": np.arange(10.0), "target_names": ["y"]}
    sources = {
        "parsed here": lambda: DatasetSource(**table),
        "parsed there": lambda: DatasetSource(**table, parser=PLAIN.read_row),
        "graphs": lambda: DatasetSource(graphs=[GRAPH] * 10),
    }
    stores = {}
    for name, source in sources.items():
        register_dataset(name)(source)
        try:
            stores[name] = get_store(DatasetOptions(name=name, positions="rdkit"))
        except DatasetError as error:
            assert f"{name!r} does not read --positions" in str(error)
    assert {name: len(store.columns["pos"]) for name, store in stores.items()} == {
        "parsed here": 30
    }


def test_files_and_content_make_a_store_stale(tmp_path):
    table, size, builds = tmp_path / "table.csv", [3], []

    @register_dataset("declared", files=[table], content=lambda _: {"size": (*size,)})
    def declared():
        builds.append((table.read_text(), *size))
        return DatasetSource(graphs=[GRAPH] * 10)

    options = DatasetOptions("declared")
    expected = [("a", 3), ("b", 3), ("b", 4)]
    for text, number in expected:
        table.write_text(text)
        size[:] = [number]
        for _ in range(2):
            get_store(options)
    assert builds == expected
    table.unlink()
    with pytest.raises(FileNotFoundError, match="table.csv"):
        get_store(options)


@pytest.mark.parametrize("known", [True, False])
def test_cells_of_a_notebook(monkeypatch, caplog, known):
    """A cell that is run again replaces its dataset; its code is the cell's, or, from
    standard input, that of no other run."""
    builds = []
    names = dict(globals(), builds=builds, __name__="__main__")
    options = DatasetOptions("cell")
    for run, number in enumerate((1, 1, 2)):
        code, file = CELL.format(number=number), f"<cell {run}>" if known else "<stdin>"
        if known:  # as IPython does
            lines = code.splitlines(keepends=True)
            cell = len(code), None, lines, file
            monkeypatch.setitem(linecache.cache, file, cell)
        exec(compile(code, file, "exec"), names)
        for _ in range(2):
            get_store(options)
    assert builds == ([1, 2] if known else [1, 1, 2])
    told = [text for text in caplog.messages if "code of cell comes from stand" in text]
    assert len(told) == (0 if known else 3)


def test_code_is_that_of_the_package(tmp_path, monkeypatch):
    """An edited helper counts too, like those in a folder of --user-dir."""
    package = tmp_path / "plugin_of_mine"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data/helper.py").write_text("SIZE = 3\n")
    (package / "data/sets.py").write_text("def dataset():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("plugin_of_mine.data.sets")
    first = code_hash(module.dataset)
    assert code_hash(module.dataset) == first
    (package / "data/helper.py").write_text("SIZE = 4\n")
    assert code_hash(module.dataset) != first
    own = Path(registry.__file__).read_bytes()  # a file of this package
    assert code_hash(register_dataset) == hashlib.sha256(own).hexdigest()


def test_a_name_of_another_function():
    def other():
        """Never called."""

    register_dataset("taken")(other)
    with pytest.raises(DatasetError, match="'taken' is registered already, by .*other"):
        register_dataset("taken")(lambda: None)
    assert DATASETS["taken"].function is other
