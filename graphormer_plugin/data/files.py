"""Files: written whole or not at all, locked against other processes, hashed, fetched."""

import atexit
import contextlib
import csv
import errno
import fcntl
import hashlib
import logging
import os
import socket
import stat
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from graphormer_plugin.data.errors import named_damage, named_in_errors

logger = logging.getLogger(__name__)

PathName = str | os.PathLike[str]

NPY_HEADER_BYTES = 128  # room for any shape
# Answers of a file system without locks, such as NFS without a lock daemon.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
NETWORK_TIMEOUT_S = 20.0  # silence when connecting or between two blocks


@contextlib.contextmanager
def atomic_write(
    path: PathName,
    mode: str = "wb",
    temporary: Path | None = None,
    **options: Any,
) -> Iterator[IO[Any]]:
    """Open a file that gets its name when it is complete; otherwise none is left.

    Readers find the old content or all of the new, even after a loss of power. Until then
    the file is called ``temporary``, by default a name that no other process uses.
    """
    path = Path(path)
    if temporary is None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with named_in_errors(path):
            with open(temporary, mode, **options) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_full(error: BaseException | None) -> bool:
    """Whether an error says that a disk is full, or a file as large as it may be."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full


@contextlib.contextmanager
def file_lock(
    path: PathName,
    on_wait: Callable[[], None] | None = None,
    keep: bool = True,
) -> Iterator[None]:
    """Hold the lock of a file or folder; block while another process has it. Where the
    file system has no locks, it warns and holds none. Without ``keep``, the file of the
    lock, which lies beside the path, is removed at the end."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        if on_wait is not None:
            on_wait()
        lock.acquire()
    except (
        OSError,
        NotImplementedError,
    ) as error:  # filelock before 4 raises the latter
        if getattr(error, "errno", errno.ENOSYS) not in NO_LOCKS:
            raise OSError(error.errno, error.strerror, lock.lock_file) from error
        logger.warning(
            "cannot lock %s (%s): let one process at a time write there", path, error
        )
    try:
        yield
    finally:
        if (
            not keep
        ):  # first: a process that waits looks whether the file is still there
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


_claims: dict[Path, IO[str]] = {}


def claim_folder(path: PathName) -> bool:
    """Lock a folder for this process, until it ends; False if its file system has no locks.

    The POSIX record lock (``lockf``) on ``.lock`` works on network file systems too, if they
    pass locks on (NFS, Lustre with ``-o flock``). Forked children, such as data workers that
    outlive the process, do not hold it. A BlockingIOError names the process that has it.
    """
    path = Path(path).resolve() / ".lock"
    if (
        path in _claims and path.exists()
    ):  # to open and close it again would release the lock
        return True
    file = open(path, "a+", encoding="utf-8", opener=_open_no_link)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(200).strip() or "unknown"
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(holder) from None
        if error.errno in NO_LOCKS:
            return False
        raise OSError(error.errno, error.strerror, str(path)) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _claims[path] = file
    atexit.register(file.close)
    return True


def check_claim(folder: PathName) -> None:
    """FileNotFoundError if a folder of `claim_folder` was removed, even if it was made anew."""
    path = Path(folder).resolve() / ".lock"
    if path in _claims and not path.exists():
        text = "removed while a training writes there"
        raise FileNotFoundError(errno.ENOENT, text, str(folder))


def _open_no_link(path: str, flags: int) -> int:
    """Opener that refuses a link: another person may have planted it in a shared folder."""
    return os.open(path, flags | os.O_NOFOLLOW, mode=0o666)


def open_to_read(path: PathName) -> IO[bytes]:
    """Open a regular file; reading a pipe or a device may never end."""
    file = open(
        path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
    )
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return file


def text_sha256(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_text(path: PathName, errors: str = "strict") -> str:
    """Text of a regular file in UTF-8, see `open_to_read`."""
    with open_to_read(path) as file:
        content = file.read()
    with named_damage(f"{path} is not UTF-8"):
        return content.decode(errors=errors)


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8, see `atomic_write`; make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_csv(
    path: PathName, rows: Iterable[Sequence[Any]], delimiter: str = ","
) -> None:
    r"""Write rows of cells that every reader splits into the same rows, see `atomic_write`.

    Readers end a row at ``\r`` too, unless it is quoted. Before February 2024 (gh-67044),
    Python quoted the characters of its own line terminator only: hence ``\r\n`` here, which
    becomes ``\n``.
    """
    with atomic_write(path, "w", encoding="utf-8", newline="") as file:
        lines = SimpleNamespace(write=lambda line: file.write(line[:-2] + "\n"))
        csv.writer(lines, delimiter=delimiter).writerows(rows)


def read_arrays(path: PathName, content: str = "file of arrays") -> dict[str, NDArray]:
    """Arrays of an ``.npz`` file by name; runs no code, and compares checksums."""
    with (
        named_damage(f"{path} is not a {content}, or damaged"),
        open_to_read(path) as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        return {name: archive[name] for name in archive.files}


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Header of the .npy format, version 1.0, of a fixed length. A store's fingerprint covers
    these bytes, which `numpy.lib.format` writes differently."""
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    magic = np.lib.format.magic(1, 0)
    length = NPY_HEADER_BYTES - len(magic) - 2
    text = repr(fields).encode("ascii").ljust(length - 1)
    return magic + length.to_bytes(2, "little") + text + b"\n"


def file_sha256(path: PathName) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hash(path: Path, kind: str, expected: str) -> None:
    """Raise ValueError if a file has another hash of a ``kind`` of hashlib than ``expected``,
    unless that is empty."""
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if expected not in ("", found):
        raise ValueError(f"{path.name}: {kind} is {found}, expected {expected}")


def folder_hash(folder: Path) -> str:
    """sha256 of names and content of the Python files in a folder and its folders."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(file_sha256(path).encode())
    return digest.hexdigest()


def home_path(path: PathName) -> Path:
    """A path with the home folder in place of ``~``; `Path.expanduser` has a RuntimeError
    for ``~name`` of no user."""
    return Path(os.path.expanduser(path))


def download_file(url: str, to: Path) -> None:
    """Download a file. Any exception may say that the server cannot be reached, is silent
    for `NETWORK_TIMEOUT_S`, or ends before the file does.

    `torch.hub.download_url_to_file` keeps half a file if the connection breaks.
    """
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT_S)
    try:
        urllib.request.urlretrieve(url, to)
    finally:
        socket.setdefaulttimeout(before)
