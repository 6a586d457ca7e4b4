"""Finished parts of a preparation on disk, so that a killed one continues."""

import hashlib
import itertools
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.chunk import FeaturisedRows, GraphChunk
from graphormer_plugin.data.files import atomic_write

_CHUNK_FIELDS = ("num_nodes", "num_edges", "x", "edge_index", "edge_attr", "row")
# What reading a missing or damaged part raises; it is made again.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile)


class SavedParts:
    """Finished parts of a preparation, in a folder beside the store.

    All parts have the same number of rows; the last rows of a source form none. Beside
    those with graphs there may be parts of arrays with numbers of rows of their own. The
    build of a store holds the store's lock, reads the parts, continues after them, and
    removes them at the end.

    Args:
        folder: Need not exist.
        key: All that the parts depend on; those of another key are removed.
    """

    def __init__(self, folder: Path, key: Any) -> None:
        self.folder = folder
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        self.key_file = folder / f"{digest}.key"
        if folder.exists() and not self.key_file.exists():
            self.remove()

    def load(self) -> Iterator[FeaturisedRows]:
        """Yields the parts in their order, up to the first missing one."""
        number = 0
        while (part := self._read(number)) is not None:
            yield part
            number += 1

    def save(self, number: int, pieces: Sequence[FeaturisedRows]) -> None:
        """Writes a part as a whole."""
        part = FeaturisedRows.joined(pieces)
        rest = {
            "extras": part.extras,
            "failures": part.failures,
            "rows": part.rows,
        }
        text = np.frombuffer(json.dumps(rest).encode(), dtype=np.uint8)
        arrays = {}
        if part.chunk is not None:
            arrays = {
                name: _smallest(getattr(part.chunk, name)) for name in _CHUNK_FIELDS
            }
        self._write(self._path(number), rest=text, **arrays)

    def load_values(self, name: str) -> Iterator[np.ndarray]:
        """Yields what `save_values` kept, in its order, up to the first missing part."""
        for number in itertools.count():
            try:
                with np.load(self._path(number, name), allow_pickle=False) as arrays:
                    part = arrays["values"]
            except _UNREADABLE:
                return
            yield part

    def save_values(self, name: str, number: int, values: np.ndarray) -> None:
        """Writes a part of an array, beside the parts with graphs, as a whole.

        Args:
            name: Of the array.
            number: Of its part.
            values: Rows of the part.
        """
        self._write(self._path(number, name), values=values)

    def remove(self) -> None:
        """Removes all parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int, name: str = "") -> Path:
        return self.folder / f"{name}{number:06d}.npz"

    def _write(self, path: Path, **arrays: np.ndarray) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.key_file.touch()
        with atomic_write(path) as file:
            np.savez(file, **arrays)

    def _read(self, number: int) -> FeaturisedRows | None:
        try:
            with np.load(self._path(number), allow_pickle=False) as arrays:
                rest = json.loads(arrays["rest"].tobytes())
                chunk = None
                if "x" in arrays.files:
                    chunk = GraphChunk(**{name: arrays[name] for name in _CHUNK_FIELDS})
            failures = [tuple(failure) for failure in rest["failures"]]
            return FeaturisedRows(chunk, rest["extras"], failures, rest["rows"])
        except _UNREADABLE:
            return None


def _smallest(values: np.ndarray) -> np.ndarray:
    """Integers in the smallest type that holds all of them."""
    if values.dtype.kind not in "iu":
        return values
    ends = (values.min(initial=0), values.max(initial=0))
    return values.astype(np.result_type(*map(np.min_scalar_type, ends)))
