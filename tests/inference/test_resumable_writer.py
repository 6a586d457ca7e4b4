"""Files of predictions that a later run may go on with."""

import errno
import os
from collections import Counter

import numpy as np
import pytest

from graphormer_plugin.inference.resumable_writer import ResumableWriter


def writer(folder):
    arrays = {folder / "v.npy": ("<f4", (2,))}
    return ResumableWriter(folder / "out.csv", ["y"], arrays, "key", False)


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
