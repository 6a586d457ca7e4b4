"""Names, sources and options of datasets."""

from pathlib import Path

import pytest

from graphormer_plugin.data import DatasetError, DatasetOptions, get_store
from graphormer_plugin.data.locate import locate
from graphormer_plugin.data.options import data_root_folder


def test_unknown(tmp_path):
    with pytest.raises(DatasetError, match="unknown dataset 'nzi'.*one of: .*nci"):
        get_store(DatasetOptions("nzi", data_root=str(tmp_path)))


def test_other_source(tmp_path):
    with pytest.raises(DatasetError, match="comes from rdkit, not from 'ogb'"):
        get_store(DatasetOptions("nci", "ogb", data_root=str(tmp_path)))


@pytest.mark.parametrize(
    "flag, value",
    [
        ("split", "scaffold"),
        ("smiles_column", "structure"),
        ("target_columns", "mass"),
        ("target_kind", "binary"),
        ("target_unit", "eV"),
    ],
)
def test_options_that_a_dataset_does_not_read(tmp_path, flag, value):
    changes = {flag: value}
    flag = "--" + flag.replace("_", "-")
    with pytest.raises(DatasetError, match=f"'nci' does not read {flag}; leave it"):
        get_store(DatasetOptions("nci", data_root=str(tmp_path), **changes))
    assert not list(tmp_path.iterdir())


def test_the_home_of_nobody(tmp_path, monkeypatch):
    """The name stays, as in a shell."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match="unknown dataset '~nobody-here/m'"):
        get_store(DatasetOptions("~nobody-here/m"))
    with pytest.raises(DatasetError, match="~nobody-here/m.csv: No such file"):
        get_store(DatasetOptions("~nobody-here/m.csv"))
    with pytest.raises(DatasetError, match="~nobody-here: no such folder"):
        get_store(DatasetOptions("m", user_data_dir="~nobody-here"))
    root = data_root_folder(DatasetOptions("m", data_root="~nobody-here"))
    assert root == Path("~nobody-here")


def test_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path))
    assert locate(DatasetOptions("nci"))[1].parent == tmp_path / "stores"
