"""Graphs on their way into a store: parts, after which a killed build goes on."""

import shutil
from pathlib import Path
from typing import Any

from graphormer_plugin.data.files import text_sha256
from graphormer_plugin.data.graphs.chunk import FeaturisedRows
from graphormer_plugin.data.part_folder import PartFolder

PART_PIECES = 64  # pieces of a part: some seconds of work
PART_BYTES = 1 << 26  # after which a part of fewer pieces ends


class BuildChunks(PartFolder):
    """Consecutive rows of a source, several pieces in a part.

    The ``key`` names everything that the parts depend on. Parts of another key are removed;
    all are if it is None.
    """

    def __init__(self, folder: Path, key: Any = None) -> None:
        super().__init__(folder, FeaturisedRows)
        digest = text_sha256(repr(key))
        self._key_file = folder / f"{digest}.key"
        if key is None or not self._key_file.exists():
            shutil.rmtree(folder, ignore_errors=True)
        self._waiting: list[FeaturisedRows] = []

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
        self.folder.mkdir(exist_ok=True)
        self._key_file.touch()
        self.write(FeaturisedRows.joined(self._waiting))
        self._waiting = []
