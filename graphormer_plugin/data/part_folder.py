"""Finished parts of long work, after which a killed process goes on."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import atomic_write, read_arrays


class PartFolder:
    """Consecutive parts in numbered files of a folder, each of which is written whole.

    Args:
        part_type: type of the parts, with a method ``to_arrays`` and its inverse ``from_arrays``.

    Attributes:
        count: number of parts, written or taken from an earlier process.
    """

    def __init__(self, folder: Path, part_type: type) -> None:
        self.folder = folder
        self.part_type = part_type
        self.count = 0

    def earlier(self) -> Iterator[Any]:
        """Take the parts of an earlier process, up to the first that is missing or damaged."""
        with contextlib.suppress(OSError, ValueError):
            while True:
                part = self._read(self.count)
                self.count += 1
                yield part

    def __iter__(self) -> Iterator[Any]:
        """Yield all parts in order."""
        return map(self._read, range(self.count))

    def write(self, part: Any) -> Any:
        """Write the next part; returns it."""
        self.folder.mkdir(exist_ok=True)
        with atomic_write(self._path(self.count)) as file:
            np.savez(file, **part.to_arrays())
        self.count += 1
        return part

    def _read(self, number: int) -> Any:
        path = self._path(number)
        arrays = read_arrays(path)
        with named_damage(f"{path} is damaged; the same command makes it again"):
            return self.part_type.from_arrays(arrays)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"
