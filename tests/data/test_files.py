"""Files that are written whole or not at all."""

import errno
import multiprocessing
import os
import shutil

import numpy as np
import pandas
import pytest

from graphormer_plugin.data.files import (
    atomic_write,
    check_claim,
    claim_folder,
    file_lock,
    read_arrays,
    read_text,
    write_csv,
)
from graphormer_plugin.data.tables.table import CsvTable
from graphormer_plugin.inference.model_folder import read_folder


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        with atomic_write(path, "w", encoding="utf-8") as file:
            file.write("half")
            raise KeyboardInterrupt
    with pytest.raises(OSError, match=rf"^cannot write {path}: No space left"):
        with atomic_write(path) as file:
            raise OSError(28, "No space left on device")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_ends_of_lines_in_cells(tmp_path):
    rows = [["smiles", "note"], ["CCO", "old\rmac"], ["\rC", "a\nb\r\nc"], ["N", ""]]
    path = tmp_path / "out.csv"
    write_csv(path, rows)
    assert path.read_bytes().endswith(b'"a\nb\r\nc"\nN,\n')
    assert [cells for *_, cells in CsvTable(path).rows(rows[0])] == rows[1:]
    frame = pandas.read_csv(path, keep_default_na=False)
    assert frame.values.tolist() == rows[1:]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks(tmp_path, monkeypatch, caplog, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    with file_lock(tmp_path / "store"):
        (text,) = caplog.messages
    assert f"cannot lock {tmp_path / 'store'}" in text and os.strerror(code) in text
    code = errno.EIO
    with pytest.raises(OSError, match=r"\.store\.lock"), file_lock(tmp_path / "store"):
        pass


def test_claims_of_a_folder(tmp_path, monkeypatch):
    """One that is removed and made anew, and a file system with errors or without locks."""
    (folder := tmp_path / "checkpoints").mkdir()
    check_claim(folder)
    assert claim_folder(folder) and claim_folder(folder)
    check_claim(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="removed while.*checkpoints"):
        check_claim(folder)
    assert claim_folder(folder)
    check_claim(folder)
    (other := tmp_path / "other").mkdir()
    for code in (errno.ENOLCK, errno.EIO):

        def refuse(*_, code=code):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr("fcntl.lockf", refuse)
        if code == errno.ENOLCK:
            assert not claim_folder(other)
        else:
            with pytest.raises(OSError, match=str(other)):
                claim_folder(other)


def write_often(path):
    for _ in range(300):
        with atomic_write(path) as file:
            file.write(b"all")


def test_several_writers_of_a_file(tmp_path):
    path = tmp_path / "table.csv"
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map(write_often, [path] * 3)
    assert [*tmp_path.iterdir()] == [path] and path.read_bytes() == b"all"


def test_arrays_are_compared_with_their_checksums(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(100.0), b=np.array(["x"]))
    arrays = read_arrays(path)
    assert arrays["a"].sum() == 4950 and arrays["b"].tolist() == ["x"]
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(50).tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path} is not a file of arrays, or"):
        read_arrays(path)
    np.savez(path, a=np.array([{}]))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_arrays(path)


def test_only_regular_files_are_read(tmp_path):
    path = tmp_path / "models.json"
    os.mkfifo(path)
    places = {read_text: path, read_folder: tmp_path, read_arrays: path}
    for read, place in places.items():
        with pytest.raises(OSError, match=f"not a regular file: '{path}'"):
            read(place)
    with pytest.raises(OSError, match="Is a directory"):
        read_text(tmp_path)


def test_text_that_is_not_utf_8(tmp_path):
    path = tmp_path / "settings.json"
    path.write_bytes(b'"\xff"')
    with pytest.raises(ValueError, match=f"^{path} is not UTF-8: .*byte 0xff"):
        read_text(path)
