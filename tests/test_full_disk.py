"""A disk that is full, at everything that writes: one line with the path, nothing torn."""

import contextlib
import subprocess

import pytest

from graphormer_plugin.cli.preprocess import main as preprocess


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
