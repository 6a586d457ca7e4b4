"""Files: written whole or not at all, locked against other processes, hashed, fetched."""

import contextlib
import errno
import fcntl
import glob
import hashlib
import http.client
import io
import logging
import os
import shutil
import socket
import stat
import urllib.request
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.errors import DatasetError, named_damage

logger = logging.getLogger(__name__)

# What a file system without locks answers, such as Lustre without `-o flock`.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
UNPACKED_RATIO = 50  # bytes per compressed byte; tables of molecules have 3 to 20
UNPACKED_FREE = 1 << 26  # bytes that any compressed file may have
NPY_HEADER_BYTES = 128  # room for any shape
NETWORK_TIMEOUT_S = 20.0  # without data, when connecting or between two blocks


def open_to_write(
    path: str | os.PathLike[str], mode: str = "wb", **options: Any
) -> IO[Any]:
    """Opens a file for writing, as `open` does, but never the target of a symbolic link.

    A link in a folder from somebody else may name any file of this user. All files that
    this package writes are opened here.

    Args:
        mode: With ``x``, nothing of that name may be there.
        **options: As for `open`, for example ``encoding``.

    Raises:
        OSError: It is a link, or cannot be opened; the message names it.
    """
    refuse_link(path)  # in words; later the kernel refuses it
    return open(
        path,
        mode,
        opener=lambda name, how: os.open(
            name, how | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666  # never waits for a pipe
        ),
        **options,
    )


def refuse_link(path: str | os.PathLike[str]) -> None:
    """Raises OSError for a symbolic link, through which files elsewhere would be written
    and removed."""
    if os.path.islink(path):
        link = "it is a symbolic link; remove it"
        raise OSError(errno.ELOOP, link, os.fspath(path))


def make_folder(path: Path) -> None:
    """Makes a folder if it is missing; see `refuse_link`."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    mode: str = "wb",
    temporary: Path | None = None,
    **options: Any,
) -> Iterator[IO[Any]]:
    """Opens a file that gets its name when it is complete; otherwise none is left.

    Readers find the old content or all of the new, also after a loss of power.

    Args:
        path: Of the file; an existing file is replaced.
        mode: ``wb`` or ``w``.
        temporary: Its name until then; by default a name that no other process uses.
            After a kill, the next writer removes or replaces the temporary file.
        **options: As for `open`, for example ``encoding``.

    Raises:
        OSError: It cannot be written; the message names it.
    """
    path = Path(path)
    if temporary is None:
        _remove_leftovers(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with named_in_errors(path):
            with _open_locked(temporary, mode, **options) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)  # while it is locked
    finally:
        temporary.unlink(missing_ok=True)


def _open_locked(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Opens a new file, and locks it where the file system has locks."""
    while True:
        path.unlink(missing_ok=True)  # a leftover of this number, or a link
        file = open_to_write(path, mode.replace("w", "x"), **options)
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if _has_name(file, path):
            return file
        file.close()  # taken for a leftover before it was locked


def _has_name(file: IO[Any], path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _remove_leftovers(path: Path) -> None:
    """Removes temporary files of killed writers, which nobody has locked."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        number = leftover.name[len(path.name) + 2 : -len(".tmp")]
        if not number.isdecimal():  # of another file, such as NAME.gz
            continue
        with contextlib.suppress(OSError), open_to_write(leftover, "r+b") as file:
            # Open for writing, without which NFS locks nothing.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _has_name(file, leftover):
                leftover.unlink()


@contextlib.contextmanager
def named_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Names the file that is written, which the error of a full disk does not.

    Raises:
        OSError: With the name of the file.
    """
    try:
        yield
    except OSError as error:
        named = OSError(f"cannot write {path}: {error.strerror or error}")
        named.errno = error.errno
        raise named from error


def is_full(error: BaseException | None) -> bool:
    """Whether an error says that a disk is full, or a file as large as it may be."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full


def is_read_only(error: OSError) -> bool:
    """Whether an error says that this user, or nobody, can write there."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def lock(file: IO[Any], wait: bool = False) -> None:
    """Locks an open file (``flock``) until it is closed.

    Where the file system has no locks, it warns and locks nothing.

    Raises:
        BlockingIOError: Another process has it, and ``wait`` is False.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in NO_LOCKS:
            error.filename = file.name
            raise
        logger.warning(
            "cannot lock %s: %s; let one process at a time write there",
            file.name,
            error.strerror,
        )


@contextlib.contextmanager
def file_lock(
    path: str | os.PathLike[str], on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Holds the lock of a file or folder; blocks while another process has it.

    The kernel keeps the lock (``flock``) and releases it when its holder dies.

    Args:
        path: Of the file or folder; need not exist.
        on_wait: Called once if the lock is taken.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(path.parent / f".{path.name}.lock", "a") as file:
        try:
            lock(file)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            lock(file, wait=True)
        yield


_claims: dict[Path, IO[str]] = {}


def claim_folder(path: str | os.PathLike[str]) -> bool:
    """Locks a folder for this process, until it ends.

    A POSIX record lock (``lockf``) on ``.lock`` in the folder, which network file systems
    have too. The kernel releases it when the process dies, and forked children, such as data
    workers that outlive it, do not hold it. Processes on other machines see it only where
    the file system passes locks on (NFS, Lustre with ``-o flock``).

    Args:
        path: Exists.

    Returns:
        False if the file system has no locks, so that nothing is locked.

    Raises:
        BlockingIOError: Another process has it; says which.
        OSError: The lock file cannot be written.
    """
    path = Path(path).resolve() / ".lock"
    if path in _claims:  # to open and close it again would release the lock
        return True
    file = open_to_write(path, "a+", encoding="utf-8")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(200).strip() or "unknown"
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(holder) from None
        return False
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _claims[path] = file
    return True


def open_to_read(path: str | os.PathLike[str]) -> IO[bytes]:
    """Opens a regular file; reading a pipe or a device may never end.

    Raises:
        OSError: There is no such file, or it is of another kind; the message names it.
    """
    file = open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return file


def read_text(path: str | os.PathLike[str], errors: str = "strict") -> str:
    """Text of a regular file in UTF-8, see `open_to_read`.

    Raises:
        OSError: See `open_to_read`.
        ValueError: It is not UTF-8; names the file.
    """
    with open_to_read(path) as file:
        content = file.read()
    with named_damage(f"{path} is not UTF-8"):
        return content.decode(errors=errors)


def write_text(path: Path, text: str) -> None:
    """Writes a file in UTF-8, see `atomic_write`; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(text)


def read_arrays(
    path: str | os.PathLike[str],
    names: Collection[str] | None = None,
    kind: str = "file of arrays",
) -> dict[str, NDArray]:
    """Arrays of an ``.npz`` file by name; runs no code, and compares checksums.

    Args:
        names: Of the arrays that are read; None: of all.
        kind: Of the file, for messages.

    Raises:
        OSError: See `open_to_read`.
        ValueError: It is damaged; names the file.
    """
    with (
        named_damage(f"{path} is not a {kind}, or damaged"),
        open_archive(path) as archive,
    ):
        arrays = {}
        every = [entry.removesuffix(".npy") for entry in archive.namelist()]
        for name in every if names is None else names:
            entry = io.BytesIO(archive.read(f"{name}.npy"))
            arrays[name] = np.lib.format.read_array(entry, allow_pickle=False)
        return arrays


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Header of the .npy format, version 1.0, of a fixed length.

    `numpy.lib.format` writes the fields in other words, and a store's fingerprint covers
    these bytes.
    """
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    magic = np.lib.format.magic(1, 0)
    length = NPY_HEADER_BYTES - len(magic) - 2
    text = repr(fields).encode("ascii").ljust(length - 1)
    return magic + length.to_bytes(2, "little") + text + b"\n"


def file_sha256(path: str | os.PathLike[str]) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_unpacked(
    path: str | os.PathLike[str], size: int, compressed: bool = True
) -> None:
    """Compares what a file unpacks to, which may fill the memory or the disk, with its size.

    Args:
        size: Bytes that it unpacks to.
        compressed: If not, it has all of these bytes.

    Raises:
        DatasetError: It unpacks to more than honest files do.
    """
    limit = os.path.getsize(path)
    if compressed:
        limit = max(UNPACKED_FREE, UNPACKED_RATIO * limit)
    if size > limit:
        raise DatasetError(
            f"{path} unpacks to more than {limit:,} bytes; if that is right, unpack it "
            "(gunzip), or write it without compression"
        )


def leads_out(name: str) -> bool:
    """Whether a name in a file leads out of the folder to which it is relative."""
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts


@contextlib.contextmanager
def open_archive(
    path: str | os.PathLike[str], compressed: bool = False
) -> Iterator[zipfile.ZipFile]:
    """Opens a zip archive.

    Args:
        compressed: This package and torch write without compression.

    Raises:
        OSError: It cannot be read.
        ValueError, zipfile.BadZipFile: It is damaged; its entries together are too large,
            see `check_unpacked`: they are compressed, or share their bytes; or the name
            of an entry leads out of the folder.
    """
    with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        check_unpacked(path, sum(entry.file_size for entry in entries), compressed)
        if outside := [e.filename for e in entries if leads_out(e.filename)]:
            raise zipfile.BadZipFile(f"{outside[0]!r} leads out of the folder")
        yield archive


def stamp(state: os.stat_result) -> list[int]:
    """Identity of a file and its state: inode, size, and the times of modification and of
    status change. No program can set the last time, so an equal stamp means equal content.
    """
    return [state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def home_path(path: str | os.PathLike[str]) -> Path:
    """A path with the home folder in place of ``~`` or ``~user``.

    The name of a user who is unknown stays, where `Path.expanduser` has a RuntimeError.
    """
    return Path(os.path.expanduser(path))


def fsync_folder(path: Path) -> None:
    """Writes the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def download_file(url: str, to: Path) -> None:
    """Downloads a file.

    `torch.hub.download_url_to_file` sets no timeout, and keeps half a file if the
    connection breaks.

    Raises:
        OSError, ValueError: The server cannot be reached, is silent for
            `NETWORK_TIMEOUT_S`, or ends before the file does.
    """
    try:
        with (
            urllib.request.urlopen(url, timeout=NETWORK_TIMEOUT_S) as answer,
            open_to_write(to, "xb") as file,
        ):
            shutil.copyfileobj(answer, file)
            # A connection that breaks looks like the end of the file.
            size, whole = file.tell(), answer.headers["Content-Length"]
    except http.client.HTTPException as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if whole is not None and size != int(whole):
        raise ValueError(f"the connection ended after {size} of {whole} bytes")
