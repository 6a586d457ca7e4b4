"""Featurised rows: in memory, and on disk so that a killed preparation goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np

from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.writer import GraphChunk

_CHUNK_FIELDS = ("num_nodes", "num_edges", "x", "edge_index", "edge_attr", "row")


@dataclass
class Batch:
    """Featurised rows.

    Attributes:
        chunk: Graphs of the rows that could be parsed; ``chunk.row`` is set.
        extras: List per name, one entry per graph.
        failures: (row, SMILES, reason) of the others.
        rows: How many rows went in.
    """

    chunk: Optional[GraphChunk]
    extras: dict[str, list[Any]] = field(default_factory=dict)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    rows: int = 0


def joined(batches: Sequence[Batch]) -> Batch:
    """Consecutive batches as one."""
    result = Batch(None, rows=sum(batch.rows for batch in batches))
    for batch in batches:
        result.failures += batch.failures
        for name, values in batch.extras.items():
            result.extras.setdefault(name, []).extend(values)
    chunks = [batch.chunk for batch in batches if batch.chunk is not None]
    if chunks:
        result.chunk = GraphChunk.joined(chunks)
    return result


class SavedParts:
    """Parts of a preparation that are finished, in a folder beside the store.

    A part holds the same number of rows as every other; the last rows of a source make
    none. Whoever builds the store holds its lock, reads the parts, goes on behind them
    and removes them in the end.

    Args:
        folder: Need not exist.
        key: What the parts depend on; those of another key are removed.
    """

    def __init__(self, folder: Path, key: Any) -> None:
        self.folder = folder
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        self.key_file = folder / f"{digest}.key"
        if folder.exists() and not self.key_file.exists():
            self.remove()

    def load(self) -> Iterator[Batch]:
        """Yields the parts in their order, up to the first that is not there."""
        number = 0
        while (part := self._read(number)) is not None:
            yield part
            number += 1

    def save(self, number: int, batches: Sequence[Batch]) -> None:
        """Writes a part; it is there whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.key_file.touch()
        batch = joined(batches)
        rest = {
            "extras": batch.extras,
            "failures": batch.failures,
            "rows": batch.rows,
        }
        text = np.frombuffer(json.dumps(rest).encode(), dtype=np.uint8)
        arrays = {}
        if batch.chunk is not None:
            arrays = {
                name: _smallest(getattr(batch.chunk, name)) for name in _CHUNK_FIELDS
            }
        with atomic_write(self._path(number)) as file:
            np.savez(file, rest=text, **arrays)

    def remove(self) -> None:
        """Removes all parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"

    def _read(self, number: int) -> Optional[Batch]:
        try:
            with np.load(self._path(number), allow_pickle=False) as arrays:
                rest = json.loads(arrays["rest"].tobytes())
                chunk = None
                if "x" in arrays.files:
                    chunk = GraphChunk(**{name: arrays[name] for name in _CHUNK_FIELDS})
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return None  # not there, or damaged: made again
        failures = [tuple(failure) for failure in rest["failures"]]
        return Batch(chunk, rest["extras"], failures, rest["rows"])


def _smallest(values: np.ndarray) -> np.ndarray:
    """Integers in the smallest type that holds them all."""
    if values.dtype.kind not in "iu":
        return values
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    for dtype in (np.uint8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values
