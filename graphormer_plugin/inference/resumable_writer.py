"""Predictions that are written block by block, so that a killed run can be resumed."""

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.files import (
    atomic_write,
    lock,
    make_folder,
    npy_header,
    open_to_write,
    read_arrays,
    read_text,
)
from graphormer_plugin.data.tables.csv_lines import write_lines

# Type, and shape without the first dimension, of each array by its path.
Arrays = Mapping[Path, tuple[Any, tuple[int, ...]]]


class ResumableWriter:
    """Writes a CSV table and ``.npy`` arrays beside it.

    Each block of rows is a file in the folder ``<table>.parts``, which is there when it is
    complete; `finish` joins the blocks. A folder without the file ``key`` is a leftover.

    Args:
        table: the CSV file, or what `convert` makes of it.
        header: its first line.
        arrays: files of arrays.
        key: digest of everything that the content depends on.
        resume: continue an interrupted run with the same key.
        convert: writes the finished table in another format; a function of the CSV and
            of the file to write.

    Attributes:
        rows: rows written.
        failed: number of these rows without prediction.
        unlike: number of these rows unlike the training, see `outside_domain`.

    Raises:
        ValueError: a file exists already, an interrupted run is not to be resumed or has
            another key, or another process writes the table.
    """

    def __init__(
        self,
        table: Path,
        header: Sequence[str],
        arrays: Arrays,
        key: str,
        resume: bool,
        convert: Callable[[Path, Path], None] | None = None,
    ) -> None:
        self.table, self.header, self.arrays = table, header, arrays
        self.convert = convert
        self.folder = parts_folder(table)
        self.blocks = self.rows = self.failed = 0
        self.unlike: Counter[str] = Counter()
        self.lengths = [0] * len(arrays)
        make_folder(self.folder)
        self._lock = open_to_write(self.folder / "lock", "a")
        try:
            lock(self._lock)
        except BlockingIOError:
            self._lock.close()
            raise ValueError(f"{table}: another process is writing it") from None
        try:
            self._begin(key, resume)
        except BaseException:
            self.close()
            raise

    def _begin(self, key: str, resume: bool) -> None:
        key_file = self.folder / "key"
        while key_file.exists() and self._block(self.blocks).exists():
            self.blocks += 1
        if not self.blocks:
            self._check_free()
            for leftover in [self.folder / "joining", *self.folder.glob("*.npz")]:
                leftover.unlink(missing_ok=True)
            with atomic_write(key_file, "w") as file:
                file.write(key)
            return
        if not resume:
            raise ValueError(
                f"{self.folder} belongs to an interrupted run; continue it with --resume, "
                "or remove that folder to start again"
            )
        if read_text(key_file) != key:
            raise ValueError(
                f"{self.folder} belongs to a run with other input, checkpoints or "
                "options; give the same, or remove that folder to start again"
            )
        state = json.loads(self._read(self.blocks - 1, "state").tobytes())
        self.rows, self.failed, unlike, self.lengths = state
        self.unlike = Counter(unlike)

    def append(
        self,
        rows: Sequence[Sequence[str]],
        arrays: Sequence[np.ndarray],
        failed: int,
        unlike: Counter[str],
    ) -> None:
        """Append a block of rows to the table, and their entries to each array.

        Args:
            arrays: [rows, ...] for each file of arrays, in their order.
            failed, unlike: of these rows, see the attributes.
        """
        lengths = [
            length + len(values)
            for length, values in zip(self.lengths, arrays, strict=True)
        ]
        state = self.rows + len(rows), self.failed + failed, self.unlike + unlike
        content = {
            "state": _bytes(json.dumps([*state, lengths])),
            "table": _bytes(_csv_lines(rows)),
        }
        for path, values in zip(self.arrays, arrays, strict=True):
            content[path.name] = np.asarray(values, self.arrays[path][0])
        with atomic_write(self._block(self.blocks)) as file:
            np.savez(file, **content)
        self.rows, self.failed, self.unlike = state
        self.lengths, self.blocks = lengths, self.blocks + 1

    def finish(self) -> None:
        """Join the blocks into the files."""
        joining = self.folder / "joining"
        if not joining.exists():  # else the files are of this run
            self._check_free()
            open_to_write(joining, "a").close()
        sizes = zip(self.arrays.items(), self.lengths, strict=True)
        for (path, (dtype, tail)), length in sizes:
            self._join(path, npy_header(np.dtype(dtype), (length, *tail)), path.name)
        joined = self.folder / "joined.csv" if self.convert else self.table
        self._join(joined, _csv_lines([self.header]).encode(), "table")
        if self.convert:
            self.convert(joined, self.table)
        (self.folder / "key").unlink()
        shutil.rmtree(self.folder)
        self._lock.close()

    def close(self) -> None:
        """Let others write the table; remove the folder if it has no rows."""
        if not self._lock.closed and not self.blocks:
            shutil.rmtree(self.folder)
        self._lock.close()

    def _check_free(self) -> None:
        for path in (self.table, *self.arrays):
            if path.exists():
                raise ValueError(
                    f"{path} exists already; remove it, or name another file"
                )

    def _block(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"

    def _read(self, number: int, name: str) -> np.ndarray:
        try:
            return read_arrays(self._block(number), [name])[name]
        except ValueError as error:
            raise ValueError(f"{error}; remove {self.folder} to start again") from None

    def _join(self, path: Path, start: bytes, name: str) -> None:
        with atomic_write(path) as file:
            file.write(start)
            for number in range(self.blocks):
                file.write(self._read(number, name).tobytes())


def parts_folder(table: Path) -> Path:
    """Folder with the blocks of an unfinished run."""
    return table.with_name(table.name + ".parts")


def is_interrupted(table: Path) -> bool:
    """Whether a table has an unfinished run."""
    return (parts_folder(table) / "key").exists()


def _csv_lines(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO(newline="")
    write_lines(text, rows)
    return text.getvalue()


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)
