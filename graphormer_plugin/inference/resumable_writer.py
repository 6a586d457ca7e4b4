"""Files that are written block by block, so that a killed run can be resumed."""

import contextlib
import hashlib
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from graphormer_plugin.data.column_file import NPY_HEADER_BYTES, npy_header
from graphormer_plugin.data.csv_lines import write_lines
from graphormer_plugin.data.files import atomic_write, lock, named_in_errors


class ResumableWriter:
    """Writes a CSV table and ``.npy`` arrays beside it.

    Unfinished files have ``.part`` appended to their names. A record, the table's
    ``.part.json``, holds their lengths; it is updated after each block is on disk. Until
    an array is finished, key and table stand in place of its header: whose it is.

    Args:
        table: the CSV file, or what `convert` makes of it.
        header: its first line.
        arrays: type and shape, without the first dimension, of each array by path.
        key: digest of everything that the content depends on.
        resume: continue the files of an interrupted run with the same key.
        convert: writes the finished table in another format; a function of the CSV and
            of the file to write.

    Attributes:
        rows: rows written.
        failed: how many of them have no prediction.
        unlike: how many of them are unlike the training, see `unlike_training`.

    Raises:
        ValueError: a file exists already; files of an interrupted run exist and are not
            to be resumed, have another key, or belong to another table; or another
            process writes them.
    """

    def __init__(
        self,
        table: Path,
        header: Sequence[str],
        arrays: Mapping[Path, tuple[Any, tuple[int, ...]]],
        key: str,
        resume: bool,
        convert: Callable[[Path, Path], None] | None = None,
    ) -> None:
        self.convert = convert
        self.arrays = dict(arrays)
        self.paths = [table, *arrays]
        self.record = part_record(table)
        self.key = key
        self.rows = self.failed = 0
        self.unlike: Counter[str] = Counter()
        self.files: dict[Path, BinaryIO] = {}
        if self.record.exists():
            self._resume(resume)
            return
        for path in self.paths:
            if path.exists():
                raise ValueError(
                    f"{path} exists already; remove it, or name another file"
                )
        try:
            for path in self.paths:
                self._open(path, 0)
                if path in self.arrays:
                    self.files[path].write(b"".join(self._mark()))
            self.files[table].write(_csv_lines([header]))
            self._save(0, 0, self.unlike)
        except BaseException:
            self.close()
            raise

    def append(
        self,
        rows: Sequence[Sequence[str]],
        arrays: Sequence[np.ndarray],
        failed: int,
        unlike: Counter[str],
    ) -> None:
        """Append rows to the table, and their entries to each array.

        Args:
            rows: cells of each row.
            arrays: [rows, ...] for each file of arrays, in their order.
            failed: how many of the rows have no prediction.
            unlike: how many are unlike the training, see `unlike_training`.
        """
        contents = [_csv_lines(rows)]
        for values, (dtype, tail) in zip(arrays, self.arrays.values(), strict=True):
            assert values.shape[1:] == tail, (values.shape, tail)
            contents.append(np.ascontiguousarray(values, dtype).tobytes())
        for path, content in zip(self.paths, contents, strict=True):
            with named_in_errors(_part(path)):
                self.files[path].write(content)
        self._save(self.rows + len(rows), self.failed + failed, self.unlike + unlike)

    def finish(self) -> None:
        """Give the complete files their final names."""
        if len(self.files) == len(self.paths):  # else a run that was killed has done so
            self._save(self.rows, self.failed, self.unlike, finished=True)
        for path in [*self.arrays, self.paths[0]]:
            if path not in self.files:  # renamed by a run that was killed just then
                continue
            if path in self.arrays:
                dtype, tail = self.arrays[path]
                count = self.files[path].tell() - NPY_HEADER_BYTES
                row_bytes = np.dtype(dtype).itemsize * int(np.prod(tail))
                shape = (count // row_bytes, *tail)
                with open(_part(path), "r+b") as file:
                    file.write(npy_header(np.dtype(dtype), shape))
                    file.flush()
                    os.fsync(file.fileno())
            if path not in self.arrays and self.convert is not None:
                self.convert(_part(path), path)
                _part(path).unlink()
            else:
                os.replace(_part(path), path)
        self.record.unlink()
        self.close()

    def close(self) -> None:
        """Close the files; remove them if they have no rows."""
        for file in self.files.values():
            # The record does not count what a full disk refused.
            with contextlib.suppress(OSError):
                file.close()
        if self.files and not self.rows:
            for path in (self.record, *map(_part, self.files)):
                path.unlink(missing_ok=True)
        self.files = {}

    def _resume(self, allowed: bool) -> None:
        if not allowed:
            for path in self.paths:
                if _part(path).exists():
                    _open_locked(_part(path)).close()  # or it is not interrupted
            raise ValueError(
                f"{self.record} belongs to an interrupted run; continue it with --resume, "
                "or remove that file to start again"
            )
        try:
            state = json.loads(self.record.read_text(encoding="utf-8"))
            key, sizes = state["key"], list(map(int, state["bytes"]))
            self.rows, self.failed = int(state["rows"]), int(state["failed"])
            unlike = {name: int(count) for name, count in state["unlike"].items()}
            self.unlike = Counter(unlike)
            finished = bool(state["finished"])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(
                f"{self.record} is damaged; remove it to start again"
            ) from None
        if key != self.key:
            raise ValueError(
                f"{self.record} belongs to a run with other input, checkpoints or "
                "options; give the same ones, or remove that file to start again"
            )
        for path, size in zip(self.paths, sizes, strict=True):
            part = _part(path)
            converted = self.convert is not None and path not in self.arrays
            if path.exists():
                renamed = not part.exists() and path.stat().st_size == size
                if not finished or not (renamed or converted):
                    raise ValueError(
                        f"{path} exists already and is not of the run of {self.record}; "
                        "move it away to continue that run"
                    )
                if not part.exists():
                    continue
            is_own = part.exists() and part.stat().st_size >= size
            if is_own and path in self.arrays:
                with open(part, "rb") as file:
                    start = file.read(NPY_HEADER_BYTES)
                # The end of a run puts the array's header in the place of the mark.
                has_header = finished and start.startswith(MAGIC_PREFIX)
                is_own = has_header or start.startswith(self._mark()[0])
            if not is_own:
                raise ValueError(
                    f"{part} is missing, too short or not of the run of {self.record}; "
                    "remove that record to start again"
                )
            self._open(path, size)

    def _mark(self) -> tuple[bytes, bytes]:
        """What an array of this run begins with: digests of the key and of the table."""
        texts = (self.key, str(self.paths[0].resolve()))
        first, second = (
            hashlib.sha256(os.fsencode(text)).hexdigest() for text in texts
        )
        return first.encode(), second.encode()

    def _open(self, path: Path, size: int) -> None:
        part = _part(path)
        part.touch()
        file = _open_locked(part)
        rows = path in self.arrays and part.stat().st_size > NPY_HEADER_BYTES
        if rows and not size:  # and there is no record of them
            own = file.read(NPY_HEADER_BYTES).endswith(self._mark()[1])
            if not own:
                file.close()
                raise ValueError(
                    f"{part} belongs to an interrupted run of another table; continue "
                    f"that one with --resume, or remove {part}"
                )
        file.truncate(size)
        file.seek(size)
        self.files[path] = file

    def _save(
        self, rows: int, failed: int, unlike: Counter[str], finished: bool = False
    ) -> None:
        for path, file in self.files.items():
            with named_in_errors(_part(path)):
                file.flush()
                os.fsync(file.fileno())
        state = {
            "key": self.key,
            "rows": rows,
            "failed": failed,
            "unlike": unlike,
            "finished": finished,  # files may have their final names
            "bytes": [self.files[path].tell() for path in self.paths],
        }
        with atomic_write(self.record, "w", encoding="utf-8") as file:
            json.dump(state, file)
        self.rows, self.failed, self.unlike = rows, failed, unlike


def part_record(table: Path) -> Path:
    """Path of the record of an unfinished run."""
    return table.with_name(table.name + ".part.json")


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _open_locked(part: Path) -> BinaryIO:
    """Open a file of a run that nobody else has open; ValueError if somebody has."""
    file = open(part, "r+b")
    try:
        lock(file)
    except BlockingIOError:
        file.close()
        raise ValueError(f"{part}: another process is writing it") from None
    return file


def _csv_lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    write_lines(text, rows)
    return text.getvalue().encode()
