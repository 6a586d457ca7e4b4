"""Errors of the data layer. Each carries one line that a user can act on."""

import contextlib
import errno
import os
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tqdm

SHARED_MEMORY = "/dev/shm"
PACKAGE = str(Path(__file__).parents[1])


class DatasetError(ValueError):
    """A source cannot be read as asked; names file, row and column where known."""


class StoreError(DatasetError):
    """A folder is not a readable graph store; the message names it and the reason."""


class NewerStoreError(DatasetError):
    """A newer version of this package has written a store, which is not replaced."""


_SINGULAR = {
    "are": "is",
    "have": "has",
    "differ": "differs",
    "take": "takes",
    "count": "counts",
}


def agreed(count: int, verb: str) -> str:
    """A verb of a number of things.

    >>> agreed(1, "are"), agreed(2, "are"), agreed(1, "cannot")
    ('is', 'are', 'cannot')
    """
    return _SINGULAR.get(verb, verb) if count == 1 else verb


def counted(count: int, noun: str, verb: str = "") -> str:
    """A number of things in a message, and a verb of theirs.

    >>> counted(1, "row"), counted(2000, "row"), counted(1, "label", "are")
    ('1 row', '2,000 rows', '1 label is')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'} {agreed(count, verb)}".rstrip()


def listed(names: Iterable[object], most: int = 3) -> str:
    """The first names, and the number of the others.

    >>> listed("abcde")
    'a, b, c and 2 more'
    """
    names = [*map(str, names)]
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of this machine, or of a GPU, was not enough."""
    # torch has no class of its own for this machine's.
    text = str(error) if isinstance(error, RuntimeError) else ""
    full = "DefaultCPUAllocator" in text or "out of memory" in text
    return full or isinstance(error, MemoryError)


def error_line(error: BaseException, arguments: Sequence[str]) -> str:
    """Message of an error in one line, which names the files among the arguments of the
    command if the memory was not enough, and the error is not one of this package."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.args[:1] == (errno.ENOSPC,):
        if error.filename is None:  # of a lock that processes share, not of a file
            text += f"; free a disk, perhaps {SHARED_MEMORY}, which processes share"
    if not is_out_of_memory(error) or (type(error) is MemoryError and str(error)):
        return text
    files = ", ".join(filter(os.path.exists, arguments)) or "the input"
    return f"not enough memory to read or compute {files}: {text}"


@contextlib.contextmanager
def named_damage(
    text: str,
    error_type: type[ValueError] = ValueError,
    keep: tuple[type[Exception], ...] = (OSError, MemoryError, DatasetError),
) -> Iterator[None]:
    """One line for any error that a missing or wrong part of a file causes: ``text``, which
    names the file, and the error. The errors to ``keep`` name the file themselves."""
    try:
        yield
    except Exception as error:
        # zipfile has errors of the system without a name, for a place in a damaged file.
        if isinstance(error, keep) and getattr(error, "filename", "") is not None:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise error_type(f"{text}: {reason}") from error


@contextlib.contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Names the file that is written, which the error of a full disk does not."""
    try:
        yield
    except OSError as error:
        named = OSError(f"cannot write {path}: {error.strerror or error}")
        named.errno = error.errno
        raise named from error


def error_place(error: BaseException, inside: str) -> str:
    """``at FILE:LINE: Type: message``, the innermost line of the user's own code."""
    if isinstance(error, SyntaxError):
        return f"at {error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [f for f in frames if inside and f.filename.startswith(inside)]
    where = (
        f"at {user_frames[-1].filename}:{user_frames[-1].lineno}: "
        if user_frames
        else "with "
    )
    message = " ".join(str(error).split())
    return f"{where}{type(error).__name__}: {message}"


@contextlib.contextmanager
def user_code_errors(what: str) -> Iterator[None]:
    """DatasetError with the place for an error in code of users, such as "the parser". This
    package's own errors, and errors of the machine, pass."""
    try:
        yield
    except (DatasetError, OSError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        files = [f.filename for f in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, ValueError) and files[-1].startswith(PACKAGE):
            raise
        # The user's file is the first that is not ours, a progress bar's or Python's.
        ours = (PACKAGE, tqdm.__path__[0], contextlib.__file__)
        inside = next((file for file in files if not file.startswith(ours)), "")
        raise DatasetError(f"{what} failed {error_place(error, inside)}") from error
