"""Files of predictions that a later run may continue."""

import contextlib
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.inference.resumable_writer import ResumableWriter


def writer(folder, key="key", resume=False, convert=None):
    arrays = {folder / "v.npy": ("<f4", (2,))}
    return ResumableWriter(folder / "out.csv", ["y"], arrays, key, resume, convert)


def killed(folder, convert=None):
    """A run that ends after a block of one row."""
    files = writer(folder, convert=convert)
    files.append([["1"]], [np.ones((1, 2))], 1, Counter(far=1))
    files.close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_goes_on(tmp_path):
    killed(tmp_path)
    (tmp_path / "out.csv.parts/.000001.npz.1.tmp").write_bytes(b"half")
    files = writer(tmp_path, resume=True)
    assert (files.rows, files.failed, files.unlike) == (1, 1, {"far": 1})
    files.append([["2"], ["3"]], [np.full((2, 2), 2)], 1, Counter(far=1))
    assert (files.rows, files.failed, files.unlike) == (3, 2, {"far": 2})
    files.finish()
    assert (tmp_path / "out.csv").read_text() == "y\n1\n2\n3\n"
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.tolist() == [[1, 1], [2, 2], [2, 2]] and vectors.dtype == "<f4"
    assert names(tmp_path) == ["out.csv", "v.npy"]


@pytest.mark.parametrize("name", ["", "lock", "joining", "key"])
def test_no_link_is_followed(tmp_path, name):
    """Of the folder of blocks or a file in it, in a folder from somebody else."""
    precious = tmp_path / "elsewhere/precious.npz"
    precious.parent.mkdir()
    precious.write_text("precious")
    link = tmp_path / "out.csv.parts" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(precious if name else precious.parent)
    refused = pytest.raises(OSError, match="it is a symbolic link; remove it")
    with refused if name in ("", "lock") else contextlib.nullcontext():
        killed(tmp_path)
    assert precious.read_text() == "precious"
    assert [*precious.parent.iterdir()] == [precious]


def test_a_running_process_is_not_an_interrupted_one(tmp_path):
    first = writer(tmp_path)
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"out.csv: another process"):
            writer(tmp_path, resume=resume)
    first.append([["1"]], [np.zeros((1, 2))], 0, Counter())
    first.close()
    with pytest.raises(ValueError, match="parts belongs to an interrupted run"):
        writer(tmp_path)
    with pytest.raises(ValueError, match="parts belongs to a run with other input"):
        writer(tmp_path, "other", resume=True)
    writer(tmp_path, resume=True).finish()


@pytest.mark.parametrize("name", ["out.csv", "v.npy"])
def test_no_other_file_is_replaced(tmp_path, name):
    """It may be there before the run, or come while the run is interrupted."""
    mine = tmp_path / name
    mine.write_text("mine")
    with pytest.raises(ValueError, match=f"{name} exists already"):
        writer(tmp_path)
    assert names(tmp_path) == [name]
    mine.unlink()
    killed(tmp_path)
    mine.write_text("mine")
    files = writer(tmp_path, resume=True)
    with pytest.raises(ValueError, match=f"{name} exists already"):
        files.finish()
    files.close()
    assert mine.read_text() == "mine"
    mine.unlink()
    writer(tmp_path, resume=True).finish()
    assert (tmp_path / "out.csv").read_text() == "y\n1\n"


def test_a_damaged_block_is_one_line(tmp_path):
    killed(tmp_path)
    block = tmp_path / "out.csv.parts/000000.npz"
    content = bytearray(block.read_bytes())
    content[content.index(b"1\n")] ^= 1  # in the table
    block.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"000000.npz is .* damaged: .*; remove .*out.csv.parts"
    ):
        writer(tmp_path, resume=True).finish()


@pytest.mark.parametrize("converts", [False, True])
@pytest.mark.parametrize("step", range(12))
def test_killed_at_any_step_of_its_end(tmp_path, monkeypatch, converts, step):
    convert = shutil.copy if converts else None
    killed(tmp_path, convert)
    files, left = writer(tmp_path, resume=True, convert=convert), [step]

    def until(function):
        def call(*arguments, **options):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(os, "replace", until(os.replace))
        patch.setattr(os, "fsync", until(os.fsync))
        patch.setattr(os, "unlink", until(os.unlink))  # of shutil.rmtree
        patch.setattr(Path, "unlink", until(Path.unlink))
        patch.setattr(Path, "touch", until(Path.touch))
        files.finish()
    files.close()
    if (tmp_path / "out.csv.parts/key").exists():
        writer(tmp_path, resume=True, convert=convert).finish()
    assert (tmp_path / "out.csv").read_text() == "y\n1\n"
    assert np.load(tmp_path / "v.npy").tolist() == [[1, 1]]
