"""Graphs on their way into a store: numbered files, after which a killed build goes on."""

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.files import atomic_write, read_arrays
from graphormer_plugin.data.graphs.chunk import FeaturisedRows

PART_PIECES = 64  # pieces of a part: some seconds of work
PART_BYTES = 1 << 26  # after which a part of fewer pieces ends


class BuildChunks:
    """Consecutive rows of a source in a folder of files, each of which is written whole.

    The ``key`` names everything that the parts depend on. Parts of another key are removed;
    all are if it is None.
    """

    def __init__(self, folder: Path, key: Any = None) -> None:
        self.folder = folder
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        self._key_file = folder / f"{digest}.key"
        if key is None or not self._key_file.exists():
            shutil.rmtree(folder, ignore_errors=True)
        self.count = 0  # parts written, or taken from an earlier build
        self._waiting: list[FeaturisedRows] = []

    def earlier(self) -> Iterator[FeaturisedRows]:
        """Take the parts of an earlier build, up to the first that is missing or damaged."""
        with contextlib.suppress(OSError, ValueError):
            while True:
                part = self._read(self.count)
                self.count += 1
                yield part

    def __iter__(self) -> Iterator[FeaturisedRows]:
        """Yield all parts in order."""
        return map(self._read, range(self.count))

    def _read(self, number: int) -> FeaturisedRows:
        return FeaturisedRows.from_arrays(read_arrays(self._path(number)))

    def append(self, rows: FeaturisedRows) -> None:
        """Add rows to the part that waits, and write it when it is large enough."""
        self._waiting.append(rows)
        chunks = (piece.chunk for piece in self._waiting if piece.chunk is not None)
        size = sum(array.nbytes for c in chunks for array in c.arrays().values())
        if len(self._waiting) == PART_PIECES or size > PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the part that waits."""
        if not self._waiting:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._key_file.touch()
        with atomic_write(self._path(self.count)) as file:
            np.savez(file, **FeaturisedRows.joined(self._waiting).to_arrays())
        self.count = self.count + 1
        self._waiting = []

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"
