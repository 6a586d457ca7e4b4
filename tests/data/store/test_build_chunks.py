"""A preparation that was killed goes on where it stopped."""

import logging
import subprocess
import sys

import numpy as np
import pytest

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.graphs.smiles import PLAIN
from graphormer_plugin.data.store import build_chunks, featurise

ROWS = 100  # in parts of 8

# A dataset whose parser notes every call, and stops where a file says so.
MODULE = """
import pathlib
import numpy as np
from graphormer_plugin.data import DatasetSource, register_dataset
from graphormer_plugin.data.graphs.smiles import PLAIN, feature_dims

HERE = pathlib.Path(__file__).parent

def parse(smiles):
    with open(HERE / "calls", "a") as file:
        file.write(smiles + "\\n")
    carbons = smiles.count("C")
    if (HERE / "stop").exists() and carbons == int((HERE / "stop").read_text()):
        raise KeyboardInterrupt
    return PLAIN.read_row(smiles)._replace(extras={"carbons": (carbons, 0.1)})

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
    monkeypatch.setattr(build_chunks, "PART_PIECES", 2)
    folder = tmp_path / "datasets"
    folder.mkdir()
    (folder / "carbons.py").write_text(MODULE)
    return folder


def options(folder, **more):
    return DatasetOptions("carbons", **{"user_data_dir": str(folder), **more})


def calls(folder):
    file = folder / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return len(lines)


def left(folder):
    return list((folder.parent / "stores").glob(".tmp-*/parts"))


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


@pytest.mark.parametrize("change", ["", "code", "damage", "rebuild"])
def test_a_stopped_preparation_goes_on(folder, change, caplog):
    """After its finished parts, unless they are of something else. test_kills.py kills it."""
    caplog.set_level(logging.INFO)
    file = folder / "stop"
    file.write_text("51")  # row 50, in the seventh part
    module = (folder / "carbons.py").read_text()
    with pytest.raises(KeyboardInterrupt):
        get_store(options(folder))
    (kept,) = left(folder)
    file.unlink()
    calls(folder)
    expected = ROWS if change else ROWS - 48  # six parts
    if change == "code":
        (folder / "carbons.py").write_text(module + "\n# another version\n")
    elif change == "damage":
        path = kept / "000002.npz"
        path.write_bytes(path.read_bytes()[:-30])
        expected = ROWS - 16
    store = get_store(options(folder, rebuild=change == "rebuild"))
    assert calls(folder) == expected
    assert not left(folder)
    assert store.target[:, 0].tolist() == np.float32(np.arange(1, 101) + 0.1).tolist()
    if not change:
        assert "continuing after 48 finished rows" in caplog.text
        at_once = get_store(options(folder, data_root=str(folder / "other")))
        assert store.fingerprint == at_once.fingerprint


def test_parts_come_back_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(build_chunks, "PART_PIECES", 1)
    smiles = ["CCO", "c1ccccc1", "nonsense", "C[N+](C)(C)C"]
    values = np.array([[1.5, np.nan], [-0.0, 3e38], [1e-45, 0]], np.float32)
    (rows,) = featurise.featurise(
        smiles, PLAIN.read_row, progress=False, describe=lambda texts: values
    )
    (none,) = featurise.featurise(["nonsense"], PLAIN.read_row, progress=False)
    saved = build_chunks.BuildChunks(tmp_path / "parts", "key")
    for piece in (rows, none):
        saved.append(piece)
    again = build_chunks.BuildChunks(tmp_path / "parts", "key")
    whole, empty = again.earlier()
    assert whole.failures == rows.failures and whole.end == 4
    assert whole.descriptors.tobytes() == values.tobytes()
    for name in ("num_nodes", "num_edges", "x", "edge_index", "edge_attr", "row"):
        got, original = getattr(whole.chunk, name), getattr(rows.chunk, name)
        assert np.array_equal(got, original), name
    assert empty.chunk is None and len(empty.failures) == 1
    assert [len(piece.failures) for piece in again] == [1, 1]
    (tmp_path / "parts" / "000001.npz").write_bytes(b"")  # as after a power failure
    assert len(list(build_chunks.BuildChunks(tmp_path / "parts", "key").earlier())) == 1
    assert (
        list(build_chunks.BuildChunks(tmp_path / "parts", "other key").earlier()) == []
    )
    assert not (tmp_path / "parts").exists()
