"""Files of predictions that a later run may go on with."""

import contextlib
import errno
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.inference.resumable_writer import ResumableWriter


def writer(folder, name="out.csv", key="key", resume=False, convert=None):
    arrays = {folder / "v.npy": ("<f4", (2,))}
    return ResumableWriter(folder / name, ["y"], arrays, key, resume, convert)


def killed(folder, *more, rows=1):
    """A run that ends after some rows."""
    files = writer(folder, *more)
    files.append([["1"]] * rows, [np.full((rows, 2), rows)], 0, Counter())
    files.close()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_nothing_is_left_where_it_cannot_begin(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EFBIG, "File too large")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="too large"):
        patch.setattr(ResumableWriter, "_save", refuse)
        writer(tmp_path)
    assert os.listdir(tmp_path) == []
    writer(tmp_path)


def test_files_of_a_running_process_stay(tmp_path):
    first = writer(tmp_path)
    first.record.unlink()  # as before it is written
    with pytest.raises(ValueError, match="another process is writing it"):
        writer(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["out.csv.part", "v.npy.part"]


def test_a_running_process_is_not_an_interrupted_one(tmp_path):
    first = writer(tmp_path)
    with pytest.raises(ValueError, match="another process is writing it"):
        writer(tmp_path)
    first.append([["1"]], [np.zeros((1, 2))], 0, Counter())
    first.close()
    with pytest.raises(ValueError, match="belongs to an interrupted run"):
        writer(tmp_path)


@pytest.mark.parametrize("key", ["key", "other"])
@pytest.mark.parametrize("resume", [False, True])
def test_vectors_of_an_interrupted_run_stay(tmp_path, key, resume):
    """Those of another table, which may be of the same input."""
    killed(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"v.npy.part belongs to an interrupted run"):
        writer(tmp_path, "other.csv", key, resume)
    assert contents(tmp_path) == before
    files = writer(tmp_path, resume=True)
    files.append([["2"]], [np.full((1, 2), 2)], 0, Counter())
    files.finish()
    assert np.load(tmp_path / "v.npy").tolist() == [[1, 1], [2, 2]]
    assert sorted(contents(tmp_path)) == ["out.csv", "v.npy"]


@pytest.mark.parametrize("keep_part", [False, True])
def test_an_array_of_another_run_is_not_taken_for_a_finished_one(tmp_path, keep_part):
    killed(tmp_path)
    part = tmp_path / "v.npy.part"
    (tmp_path / "v.npy").write_bytes(part.read_bytes())  # has the same length
    if not keep_part:
        part.unlink()
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"v.npy exists already and is not of the run"):
        writer(tmp_path, resume=True)
    assert contents(tmp_path) == before


def test_rows_of_two_runs_are_not_mixed(tmp_path):
    killed(tmp_path)
    (tmp_path / "v.npy.part").unlink()
    killed(tmp_path, "other.csv", "other", rows=3)
    with pytest.raises(
        ValueError, match=r"v.npy.part is .* not of the run of .*out.csv"
    ):
        writer(tmp_path, resume=True)
    writer(tmp_path, "other.csv", "other", resume=True).finish()
    assert np.load(tmp_path / "v.npy").tolist() == [[3, 3]] * 3


@pytest.mark.parametrize("key", ["key", "other"])
def test_without_its_record_a_run_starts_again(tmp_path, key):
    """As the messages about a record say."""
    killed(tmp_path)
    (tmp_path / "out.csv.part.json").unlink()
    killed(tmp_path, "out.csv", key, rows=2)
    writer(tmp_path, key=key, resume=True).finish()
    assert np.load(tmp_path / "v.npy").tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("converts", [False, True])
@pytest.mark.parametrize("step", range(12))
def test_killed_at_any_step_of_its_end(tmp_path, monkeypatch, converts, step):
    convert = shutil.copy if converts else None
    killed(tmp_path, "out.csv", "key", False, convert)
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
        patch.setattr(Path, "unlink", until(Path.unlink))
        files.finish()
    files.close()
    if (tmp_path / "out.csv.part.json").exists():
        writer(tmp_path, resume=True, convert=convert).finish()
    assert (tmp_path / "out.csv").read_text() == "y\n1\n"
    assert np.load(tmp_path / "v.npy").tolist() == [[1, 1]]
    assert sorted(contents(tmp_path)) == ["out.csv", "v.npy"]
