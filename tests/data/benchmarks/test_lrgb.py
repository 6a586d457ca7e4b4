"""Peptides-func from LRGB's files."""

import hashlib
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.data import DatasetError, get_store
from graphormer_plugin.data.benchmarks import lrgb
from graphormer_plugin.data.files import check_hash
from support.benchmark_files import SMILES, Code, write_peptides

SPLIT = "splits_random_stratified_peptide.pickle"


def test_classes_and_splits(tmp_path, options, caplog):
    """Files of another version are read, with a line for each."""
    write_peptides(tmp_path)
    with caplog.at_level(logging.WARNING):
        store = get_store(options("peptides-func"))
    assert [len(store.splits[n]) for n in ("train", "valid", "test")] == [40, 4, 4]
    assert store.targets.names[0] == "antifungal" and store.targets.kind == "binary"
    expected = (np.arange(len(SMILES))[:, None] // 10 + np.arange(10)) % 2
    assert np.array_equal(store.target, expected)
    assert caplog.text.count("md5 is ") == 2
    assert "48 graphs, the official release has 15,535" in caplog.text


def test_a_split_with_code_is_refused(tmp_path, options, capsys):
    folder = write_peptides(tmp_path)
    (folder / SPLIT).write_bytes(pickle.dumps({"train": Code()}))
    message = "peptides-func: .* names builtins.print, which no data need"
    with pytest.raises(DatasetError, match=message) as error:
        get_store(options("peptides-func"))
    assert "executed" not in capsys.readouterr().out
    assert "\n" not in str(error.value)


def test_downloads_are_checked(tmp_path, options, monkeypatch):
    """A server may send a page instead of a file."""
    folder = write_peptides(tmp_path / "server")
    served = [x._replace(url=(folder / x.name).as_uri()) for x in lrgb.PEPTIDES.apart]
    monkeypatch.setitem(vars(lrgb.PEPTIDES), "apart", tuple(served))
    message = "md5 is .*, expected 701eb743e899f4d793f0e13c8fa5a1b4"
    with pytest.raises(DatasetError, match=message):
        get_store(options("peptides-func"))
    assert not lrgb.PEPTIDES.path(options("peptides-func")).exists()
    right = [
        file._replace(md5=hashlib.md5((folder / file.name).read_bytes()).hexdigest())
        for file in served
    ]
    monkeypatch.setitem(vars(lrgb.PEPTIDES), "apart", tuple(right))
    assert len(get_store(options("peptides-func")).splits["train"]) == 40


def test_the_official_files(shared_data):
    """As they lie beside the tests; their molecules are not parsed here."""
    folder = shared_data / "peptides_func"
    for file in lrgb.PEPTIDES.apart:
        check_hash(folder / Path(file.name).name, "md5", file.md5)
    rows = lrgb.load_pickle((folder / SPLIT).read_bytes())
    sizes = {name: len(part) for name, part in rows.items()}
    assert sizes == {"train": 10_873, "val": 2_331, "test": 2_331}
