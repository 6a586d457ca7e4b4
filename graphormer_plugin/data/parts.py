"""Finished parts of a preparation on disk, so that a killed one continues after them."""

import hashlib
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.files import (
    atomic_write,
    make_folder,
    open_to_write,
    read_arrays,
)


class SavedParts:
    """Numbered parts of several kinds of arrays, in a folder beside the store.

    All parts of a kind have the same number of rows; the last rows of a source form none.
    The build of a store holds the store's lock, reads the parts, continues after them, and
    removes them at the end.

    Args:
        folder: Need not exist.
        key: Everything that the parts depend on; parts of another key are removed.
    """

    def __init__(self, folder: Path, key: Any) -> None:
        self.folder = folder
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        self.key_file = folder / f"{digest}.key"
        if folder.exists() and not self.key_file.exists():
            self.remove()

    def load(self, kind: str) -> Iterator[dict[str, np.ndarray]]:
        """Yields the arrays of each part in order, up to the first missing part."""
        for number in itertools.count():
            try:
                part = read_arrays(self._path(kind, number))
            except (OSError, ValueError):  # missing or damaged; it is made again
                return
            yield part

    def save(self, kind: str, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Writes a part as a whole, integers in the smallest type that holds them."""
        make_folder(self.folder)
        open_to_write(self.key_file, "a").close()
        small = {name: _smallest(values) for name, values in arrays.items()}
        with atomic_write(self._path(kind, number)) as file:
            np.savez(file, **small)

    def remove(self) -> None:
        """Removes all parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}{number:06d}.npz"


def _smallest(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iu":
        return values
    ends = (values.min(initial=0), values.max(initial=0))
    return values.astype(np.result_type(*map(np.min_scalar_type, ends)))
