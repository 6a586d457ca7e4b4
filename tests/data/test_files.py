"""Files that are written whole or not at all."""

import errno
import fcntl
import multiprocessing
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import (
    atomic_write,
    claim_folder,
    file_lock,
    make_folder,
    open_archive,
    open_to_write,
    read_arrays,
    read_text,
)
from graphormer_plugin.heads.array_file import reading
from graphormer_plugin.inference.model_folder import read_folder

ROOT = Path(__file__).resolve().parents[2]


def test_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "whole") as file:
        file.write(b"all")
    modes = {(tmp_path / name).stat().st_mode for name in ("usual", "whole")}
    assert len(modes) == 1 and (tmp_path / "whole").read_bytes() == b"all"


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


def test_leftovers_of_killed_writers_go(tmp_path):
    path = tmp_path / "table[1].csv"
    leftover = tmp_path / ".table[1].csv.4194304.tmp"
    others = [tmp_path / name for name in (".table[1].csv.gz.7.tmp", ".t.csv.7.tmp")]
    for file in (leftover, *others):
        file.touch()
    with leftover.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with atomic_write(path) as file:
            file.write(b"first")
        assert leftover.exists()
    with atomic_write(path) as file:
        assert not leftover.exists()
        (during,) = tmp_path.glob(".table[[]1].csv.[0-9]*.tmp")
        with during.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert {*tmp_path.iterdir()} == {path, *others}


def test_leftovers_on_nfs_go(tmp_path, monkeypatch):
    """Its locks are for files that are open for writing."""

    def flock(file, how, flock=fcntl.flock):
        if not file.writable():
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(file, how)

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / ".table.csv.4194304.tmp").touch()
    with atomic_write(tmp_path / "table.csv") as file:
        file.write(b"all")
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_new_file_is_not_removed_for_a_leftover_of_its_name(tmp_path, monkeypatch):
    """Another writer has removed the leftover, and one with its number writes anew,
    between the opening of the leftover and its lock."""
    leftover = tmp_path / ".table.csv.4194304.tmp"
    leftover.write_text("old")
    opened = []

    def flock(file, how, flock=fcntl.flock):
        flock(file, how)
        if str(file.name) == str(leftover) and not opened:
            leftover.unlink()
            opened.append(leftover.open("w"))
            flock(opened[0], fcntl.LOCK_EX)

    monkeypatch.setattr("fcntl.flock", flock)
    with atomic_write(tmp_path / "table.csv") as file:
        file.write(b"all")
    assert opened and leftover.exists()
    opened[0].close()


def write_often(path):
    for _ in range(300):
        with atomic_write(path) as file:
            file.write(b"all")


def test_writers_do_not_take_each_other_for_leftovers(tmp_path):
    path = tmp_path / "table.csv"
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map(write_often, [path] * 3)
    assert [*tmp_path.iterdir()] == [path] and path.read_bytes() == b"all"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks(number, tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(number, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with atomic_write(tmp_path / "table.csv") as file:
        file.write(b"all")
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
    with file_lock(tmp_path / "store"):
        assert "store.lock: Function not implemented; let one process" in caplog.text
    monkeypatch.setattr("fcntl.flock", lambda *_: open(tmp_path / "no" / "file"))
    with pytest.raises(FileNotFoundError), file_lock(tmp_path / "store"):
        pass


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


@pytest.fixture
def linked(tmp_path):
    """Function: make a path a symbolic link to a file; that must stay as it is."""
    precious = tmp_path / "elsewhere/precious"
    precious.parent.mkdir()
    precious.write_text("precious")

    def linked(path):
        path.symlink_to(precious)
        return path

    yield linked
    assert precious.read_text() == "precious"
    assert [*precious.parent.iterdir()] == [precious]


def test_a_file_replaces_a_link(linked, tmp_path):
    path = linked(tmp_path / "a")
    linked(tmp_path / f".a.{os.getpid()}.tmp")
    linked(tmp_path / ".a.4194304.tmp")
    for temporary in (None, linked(tmp_path / "temporary")):
        with atomic_write(path, temporary=temporary) as file:
            file.write(b"new")
        assert path.read_text() == "new" and not path.is_symlink()


@pytest.mark.parametrize("mode", ["w", "wb", "a", "a+", "r+b", "xb"])
def test_no_link_is_opened_for_writing(linked, tmp_path, mode):
    with pytest.raises(OSError, match="a"):
        open_to_write(linked(tmp_path / "a"), mode)


def test_locks_and_folders_are_no_links(linked, tmp_path):
    linked(tmp_path / ".lock")
    linked(tmp_path / ".store.lock")
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    for attempt in (
        lambda: claim_folder(tmp_path),
        lambda: file_lock(tmp_path / "store").__enter__(),
        lambda: make_folder(tmp_path / "folder"),
    ):
        with pytest.raises(OSError, match=r"it is a symbolic link; remove it: .*/\.?"):
            attempt()


WRITES = re.compile(
    r"""\bopen\([^()]*["'][rbt]*[wxa+][rwxabt+]*["']|\.(write_text|write_bytes|touch)\("""
    r"|shutil\.copy(file|2)?\(|mkstemp|NamedTemporaryFile"
)


def test_one_module_opens_files_for_writing():
    """All others call it, so that none of them follows a link."""
    assert WRITES.search('open(\n    path, "a+",\n)') and WRITES.search("x.touch()")
    found = {
        path.name: match[0]
        for path in (ROOT / "graphormer_plugin").rglob("*.py")
        for match in WRITES.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == {"__init__.py": 'open(os.devnull, "w"'}


@pytest.mark.parametrize("kind", ["overlapping", "compressed"])
def test_an_archive_that_unpacks_to_gigabytes(tmp_path, kind):
    path = tmp_path / "head.npz"
    if kind == "compressed":
        np.savez_compressed(path, meta=np.zeros(10**7))
    else:
        np.savez(path, meta=np.zeros(10**5))
        with open_archive(path) as archive:
            assert archive.namelist() == ["meta.npy"]
        with zipfile.ZipFile(path, "a") as archive:
            archive.filelist *= 2000  # 1.6 GB of entries with the same bytes
            archive._didModify = True
    assert path.stat().st_size < 1e6
    for opened in (open_archive(path), reading(path, "head", 1, None)):
        with pytest.raises(DatasetError, match=f"^{path} unpacks to more than"):
            with opened:
                pass
