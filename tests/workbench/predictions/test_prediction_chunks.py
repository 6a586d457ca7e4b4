"""Parts of a run of predictions."""

import os
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.data.files import write_csv
from graphormer_plugin.workbench.predictions.prediction_chunks import PredictionChunks
from graphormer_plugin.workbench.predictions.table_run import PredictedRows


@pytest.fixture
def parts(tmp_path):
    """Function: a run of this key that writes a table and vectors."""
    outputs = [tmp_path / "out.csv", tmp_path / "v.npy"]
    return lambda key="key": PredictionChunks(outputs, key)


def part(*names):
    values = np.array([[np.nan if name == "bad" else 1.0] for name in names])
    vectors = np.full((len(names), 2), len(names), np.float32)
    return PredictedRows([[name] for name in names], values, vectors, Counter(far=1))


def finish(run):
    if not run.finished():
        run.join(3, 2, partial(write_csv, run.outputs[0]), "3 rows")
    run.remove()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_goes_on(parts, tmp_path):
    parts().write(part("1"))
    (parts().folder / ".000001.npz.1.tmp").write_bytes(b"half")
    run = parts()
    assert run.count == 1
    run.write(part("bad", "\r\n"))
    read = [*parts()]
    assert [part.cells for part in read] == [[["1"]], [["bad"], ["\r\n"]]]
    assert [part.failed for part in read] == [0, 1]
    assert sum((part.outside for part in read), Counter()) == {"far": 2}
    finish(run)
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.tolist() == [[1, 1], [2, 2], [2, 2]] and vectors.dtype == "<f4"
    assert names(tmp_path) == ["out.csv", "v.npy"]


def test_parts_with_numbers_as_text_are_made_again(parts):
    """Versions before this one wrote them."""
    run = parts()
    run.write(part("1"))
    arrays = part("1").to_arrays()
    np.savez(run.folder / "000000.npz", text=arrays.pop("cells"), **arrays)
    assert parts().count == 0


def test_only_a_run_of_the_same_key_goes_on(parts, tmp_path):
    parts().write(part("1"))
    other = parts("another")
    assert other.count == 0
    other.write(part("2"))
    assert other.others() == [parts().folder]
    finish(other)
    assert (tmp_path / "out.csv").read_text() == "2\n"
    assert [*PredictionChunks([tmp_path / "new.csv"], "key").others()] == []


@pytest.mark.parametrize("name", ["out.csv", "v.npy"])
def test_no_other_file_is_replaced(parts, tmp_path, name):
    """It may be there before the run, or come while the run is interrupted."""
    run = parts()
    run.write(part("1"))
    mine = tmp_path / name
    mine.write_text("mine")
    for refused in (parts, partial(finish, run)):
        with pytest.raises(ValueError, match=f"{name} exists already"):
            refused()
    assert mine.read_text() == "mine"
    mine.unlink()
    finish(parts())


@pytest.mark.parametrize("damage", ["content", "array"])
def test_a_damaged_part_is_made_again(parts, damage):
    run = parts()
    for name in "123":
        run.write(part(name))
    path = run.folder / "000001.npz"
    path.write_bytes(path.read_bytes().replace(b'[[["2"]]', b'[[["9"]]'))
    if damage == "array":
        np.savez(path, text=np.arange(3))
    with pytest.raises(ValueError, match=r"000001.npz is .*damaged"):
        list(run)
    run = parts()
    assert run.count == 1
    run.write(part("2"))
    assert [part.cells for part in run] == [[["1"]], [["2"]]]
    assert parts().count == 3


def test_one_that_is_complete_is_finished(parts, tmp_path):
    """After a kill it is neither another's file nor predicted again."""
    run = parts()
    run.write(part("1", "2", "3"))
    assert run.finished() is None
    run.join(3, 2, partial(write_csv, run.outputs[0]), "3 rows")
    (run.folder / "000000.npz").unlink()
    assert parts().finished() == "3 rows"
    parts().remove()
    assert names(tmp_path) == ["out.csv", "v.npy"]


@pytest.mark.parametrize("step", range(15))
def test_killed_at_any_step_of_its_end(parts, tmp_path, monkeypatch, step):
    run, left = parts(), [step]
    run.write(part("1", "2", "3"))

    def until(function):
        def call(*arguments, **options):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        for owner in (os, Path):
            patch.setattr(owner, "unlink", until(owner.unlink))
        for name in ("replace", "fsync"):
            patch.setattr(os, name, until(getattr(os, name)))
        finish(run)
    finish(parts())
    assert names(tmp_path) == ["out.csv", "v.npy"]
    assert (tmp_path / "out.csv").read_text() == "1\n2\n3\n"
    assert np.load(tmp_path / "v.npy").tolist() == [[3, 3]] * 3
