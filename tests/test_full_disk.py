"""A disk that is full, at everything that writes: one line with the path, nothing torn."""

import contextlib
import os
import subprocess
from collections import Counter

import numpy as np
import pytest

from graphormer_plugin.cli.preprocess import main as preprocess
from graphormer_plugin.data.tables.csv_lines import write_csv
from graphormer_plugin.inference.part_files import PartFiles
from graphormer_plugin.inference.table_run import PredictedRows
from support.training import assert_same_weights


@pytest.fixture
def disk(tmp_path):
    """A disk of a given size in kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def make(kilobytes):
        options = f"size={kilobytes}k"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run(mount, capture_output=True).returncode == 0:
                mounted.append(folder)
                return folder
        pytest.skip("needs root, to mount a small tmpfs")

    yield make
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def table(tmp_path):
    """2,000 molecules."""
    path = tmp_path / "molecules.csv"
    rows = [f"{'C' * (3 + row % 40)},{row}" for row in range(2000)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


def files_in(folder):
    """Names of all files but locks, which are empty."""
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    )


@pytest.mark.parametrize("kilobytes", [60, 400])
def test_a_preparation(kilobytes, disk, table, capsys, monkeypatch):
    """The disk is full at the first graphs, and when the store is done."""
    monkeypatch.setattr("graphormer_plugin.data.featurise.CHUNK_ROWS", 100)
    monkeypatch.setattr("graphormer_plugin.data.parts.PART_PIECES", 4)
    folder = disk(kilobytes)
    command = ["--dataset-name", table, "--data-root", folder, "--workers", 1]
    assert preprocess([*map(str, command), "--quiet"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and f"error: cannot write {folder}" in lines[0]
    assert "No space left on device: make room, or name another" in lines[0]
    assert files_in(folder) == []
    subprocess.run(["mount", "-o", "remount,size=4m", str(folder)], check=True)
    assert preprocess([*map(str, command), "--quiet"]) == 0


@contextlib.contextmanager
def fill(folder, free):
    """Leave only so many bytes free."""
    path = folder / "filler"
    left = os.statvfs(folder)
    path.write_bytes(bytes(max(0, left.f_bavail * left.f_frsize - free)))
    try:
        yield
    finally:
        path.unlink()


@pytest.mark.slow  # compat/test_checkpoint_files.py has torn checkpoints
def test_a_training_goes_on_when_there_is_room(disk, train, fresh_fairseq, tmp_path):
    """The disk is full at the second checkpoint."""
    folder = disk(3000)
    (tmp_path / "run").symlink_to(folder)
    train("run", "--max-epoch", 1)
    with fill(folder, 20_000), pytest.raises(SystemExit, match="2"):
        train("run", "--max-epoch", 2)
    assert "checkpoint2.pt" not in files_in(folder)
    train("run", "--max-epoch", 2)
    train("whole", "--max-epoch", 2)
    assert_same_weights(folder / "checkpoint2.pt", tmp_path / "whole/checkpoint2.pt")


def test_predictions(disk):
    """Rows that are on disk stay, and the run goes on after them."""
    folder = disk(200)
    outputs = [folder / "out.csv", folder / "e.npy"]

    def part(first):
        rows = np.arange(first, first + 100)
        vectors = np.repeat(rows[:, None], 64, 1).astype("<f4")
        cells = [[str(row)] for row in rows]
        return PredictedRows(cells, rows[:, None] / 1, vectors, Counter())

    parts = PartFiles(outputs, "key")
    with pytest.raises(OSError, match=f"cannot write {folder}.*No space left"):
        for first in range(0, 1000, 100):
            parts.write(part(first))
    subprocess.run(["mount", "-o", "remount,size=4m", str(folder)], check=True)
    parts = PartFiles(outputs, "key")
    assert parts.count > 0
    for first in range(100 * parts.count, 1000, 100):
        parts.write(part(first))
    parts.begin_joining()
    parts.write_vectors(outputs[1], 1000, 64)
    write_csv(outputs[0], (cells for part in parts.read() for cells in part.cells))
    parts.remove()
    assert outputs[0].read_text().split() == [*map(str, range(1000))]
    assert (np.load(outputs[1])[:, 5] == np.arange(1000)).all()
    assert files_in(folder) == ["e.npy", "out.csv"]
