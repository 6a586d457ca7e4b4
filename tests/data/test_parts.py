"""A preparation that was killed goes on where it stopped."""

import logging
import signal
import subprocess
import sys

import numpy as np
import pytest

from graphormer_plugin.data import (
    DATASETS,
    DatasetError,
    DatasetOptions,
    featurise,
    get_store,
)
from graphormer_plugin.data.chunk import FeaturisedRows
from graphormer_plugin.data.files import file_lock
from graphormer_plugin.data.parts import SavedParts
from graphormer_plugin.data.smiles import parse_smiles
from graphormer_plugin.data.store.build import _kept_if_killed, hash_of_rows
from support.training import forked

ROWS = 100  # in parts of 8

# A dataset whose parser notes every call, and dies or fails where a file says so.
MODULE = """
import os, pathlib, signal
import numpy as np
from graphormer_plugin.data import DatasetSource, register_dataset
from graphormer_plugin.data.smiles import feature_dims, parse_smiles

HERE = pathlib.Path(__file__).parent

def parse(smiles):
    with open(HERE / "calls", "a") as file:
        file.write(smiles + "\\n")
    carbons = smiles.count("C")
    for name in ("kill", "fail"):
        if (HERE / name).exists() and carbons == int((HERE / name).read_text()):
            if name == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("not today")
    return parse_smiles(smiles)._replace(extras={"carbons": (carbons, 0.1)})

@register_dataset("carbons", options=(), content=lambda options: {"rule": 1})
def carbons():
    nodes, bonds = feature_dims()
    return DatasetSource(
        smiles=["N" + "C" * (1 + row) for row in range(ROWS)],
        parser=parse, node_dims=nodes, bond_dims=bonds,
        targets=lambda extras, splits: np.sum(extras["carbons"], axis=1)[:, None],
        splits={"train": range(0, 80), "valid": range(80, ROWS)},
    )
""".replace("ROWS", str(ROWS))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(featurise, "CHUNK_ROWS", 4)
    monkeypatch.setattr(featurise, "PART_CHUNKS", 2)
    folder = tmp_path / "datasets"
    folder.mkdir()
    (folder / "carbons.py").write_text(MODULE)
    yield folder
    DATASETS.pop("carbons", None)


def options(folder, root="data", **more):
    values = {"workers": 0, "progress": False, "user_data_dir": str(folder), **more}
    return DatasetOptions("carbons", data_root=str(folder.parent / root), **values)


def calls(folder):
    file = folder / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return len(lines)


def left(folder):
    return list((folder.parent / "data" / "stores").glob(".parts-*"))


@pytest.mark.long  # starts processes
def test_a_killed_preparation_goes_on(folder, caplog):
    caplog.set_level(logging.INFO)
    (folder / "kill").write_text("51")  # row 50, in the seventh part
    process = forked(get_store, options(folder))
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert calls(folder) == 51
    (parts,) = left(folder)
    assert len(list(parts.glob("*.npz"))) == 6
    (folder / "kill").unlink()
    store = get_store(options(folder))
    assert calls(folder) == ROWS - 48
    assert "continuing after 48 finished rows" in caplog.text
    assert not left(folder)
    at_once = get_store(options(folder, "other"))
    assert calls(folder) == ROWS
    assert store.fingerprint == at_once.fingerprint
    assert store.target[:, 0].tolist() == np.float32(np.arange(1, 101) + 0.1).tolist()


def test_parts_go_after_a_kill_between_rename_and_removal(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(SavedParts, "remove", lambda _: None)
        store = get_store(options(folder))
    (parts,) = left(folder)
    with file_lock(store.path):  # of another build
        get_store(options(folder))
        assert left(folder) == [parts]
    again = get_store(options(folder))
    assert not left(folder) and again.fingerprint == store.fingerprint
    assert calls(folder) == ROWS


@pytest.mark.parametrize("error", [MemoryError, OSError, KeyboardInterrupt])
def test_what_stops_a_preparation_from_outside_leaves_its_parts(tmp_path, error):
    parts = SavedParts(tmp_path / "parts", "key")
    parts.save("", 0, {})
    with pytest.raises(error), _kept_if_killed(parts):
        raise error
    assert (tmp_path / "parts").exists()
    with pytest.raises(DatasetError), _kept_if_killed(parts):
        raise DatasetError
    assert not (tmp_path / "parts").exists()


@pytest.mark.long  # starts workers
def test_a_script_needs_no_guard(tmp_path):
    """Its workers do not run it again."""
    smiles = "".join(f"{'C' * (1 + row % 9)}O,{row}\n" for row in range(40))
    (tmp_path / "a.csv").write_text("smiles,y\n" + smiles)
    (tmp_path / "script.py").write_text(
        "from graphormer_plugin.data import DatasetOptions, get_store\n"
        "print(len(get_store(DatasetOptions('a.csv', target_columns=['y'], workers=2, "
        "progress=False, data_root='.'))))\n"
    )
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120}
    found = subprocess.run([sys.executable, "script.py"], **how)
    assert (found.stdout, found.returncode) == ("40\n", 0), found.stderr


@pytest.mark.long  # starts workers
def test_workers_know_the_modules_of_the_user(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    store = get_store(options(folder, workers=2, user_data_dir=folder.name))
    assert store.target[:, 0].tolist() == np.float32(np.arange(1, 101) + 0.1).tolist()


def test_bad_input_leaves_nothing(folder):
    (folder / "fail").write_text("51")
    with pytest.raises(DatasetError, match="1 molecule cannot be parsed .row 50"):
        get_store(options(folder))
    assert not left(folder)
    store = get_store(options(folder, skip_invalid=True))
    assert len(store) == ROWS - 1
    assert not left(folder)


@pytest.mark.parametrize("change", ["code", "damage", "rebuild"])
def test_parts_of_something_else_are_not_used(folder, change):
    file = folder / "kill"
    file.write_text("51")
    module = (folder / "carbons.py").read_text()
    stop = "os.kill(os.getpid(), signal.SIGKILL)"
    (folder / "carbons.py").write_text(module.replace(stop, "raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        get_store(options(folder))
    (parts,) = left(folder)
    file.unlink()
    calls(folder)
    expected = ROWS
    if change == "code":
        (folder / "carbons.py").write_text(module + "\n# another version\n")
    elif change == "damage":
        path = parts / "000002.npz"
        path.write_bytes(path.read_bytes()[:-30])
        expected = ROWS - 16
    get_store(options(folder, rebuild=change == "rebuild"))
    assert calls(folder) == expected
    assert not left(folder)


def test_parts_come_back_as_they_were(tmp_path):
    smiles = ["CCO", "c1ccccc1", "nonsense", "C[N+](C)(C)C"]
    parts = SavedParts(tmp_path / "parts", "key")
    assert list(parts.load("")) == [] and not (tmp_path / "parts").exists()
    (rows,) = featurise.featurise(smiles, parse_smiles, progress=False)
    (none,) = featurise.featurise(["nonsense"], parse_smiles, progress=False)
    for number, part in enumerate((rows, none)):
        parts.save("", number, part.to_arrays())
    saved = SavedParts(tmp_path / "parts", "key").load("")
    whole, empty = map(FeaturisedRows.from_arrays, saved)
    assert whole.failures == rows.failures and whole.rows == 4
    for name in ("num_nodes", "num_edges", "x", "edge_index", "edge_attr", "row"):
        found, original = getattr(whole.chunk, name), getattr(rows.chunk, name)
        assert np.array_equal(found, original), name
    assert empty.chunk is None and len(empty.failures) == 1
    (tmp_path / "parts" / "000001.npz").write_bytes(b"")  # as after a power failure
    assert len(list(SavedParts(tmp_path / "parts", "key").load(""))) == 1
    assert list(SavedParts(tmp_path / "parts", "other key").load("")) == []
    assert not (tmp_path / "parts").exists()


def test_parts_of_arrays_come_back_as_they_were(tmp_path):
    """Beside parts with graphs, up to a gap or damage."""
    values = np.array([[1.5, np.nan], [-0.0, 3e38], [1e-45, 0]], np.float32)
    parts = SavedParts(tmp_path / "parts", "key")
    for number in (0, 1, 2, 4):
        parts.save("numbers", number, {"values": values + number})
    found = [part["values"] for part in parts.load("numbers")]
    assert len(found) == 3 and found[0].dtype == np.float32
    assert b"".join(map(bytes, found)) == b"".join(bytes(values + k) for k in range(3))
    assert list(parts.load("")) == list(parts.load("number")) == []
    file = tmp_path / "parts" / "numbers000001.npz"
    content = bytearray(file.read_bytes())
    content[content.index(bytes(values[1] + 1))] ^= 1
    file.write_bytes(content)
    assert len(list(parts.load("numbers"))) == 1


def test_sources_are_told_apart_by_their_rows():
    assert hash_of_rows(["C", "CC"]) != hash_of_rows(["CC", "C"])
