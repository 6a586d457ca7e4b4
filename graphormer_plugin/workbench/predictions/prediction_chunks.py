"""Parts of a run of predictions: a part whose file is intact is done."""

import contextlib
import glob
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import write_array_header_1_0

from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.files import atomic_write, read_text, write_text
from graphormer_plugin.data.part_folder import PartFolder
from graphormer_plugin.workbench.predictions.table_run import PredictedRows


class PredictionChunks(PartFolder):
    """Finished parts of a run in a folder beside the files that it writes.

    The same run, started again after a kill, reads the parts that are done. The name of
    the folder ends in ``key``, the digest of all that the predictions depend on: no other
    run reads them. ValueError if an output is there already.
    """

    def __init__(
        self, outputs: Sequence[Path], key: str, part_type: type = PredictedRows
    ) -> None:
        self.outputs = outputs
        table = outputs[0]
        folder = table.with_name(f"{table.name}.{key[:16]}.parts")
        super().__init__(folder, part_type)
        # From the moment on at which the outputs are written; it is removed last.
        self._summary = self.folder.with_suffix(".done")
        self._check_free()
        self.count = sum(1 for _ in self.earlier())

    def others(self) -> list[Path]:
        """Folders of unfinished runs with other options, models or input."""
        name = glob.escape(self.outputs[0].name)
        return sorted({*self.folder.parent.glob(f"{name}.*.parts")} - {self.folder})

    @contextlib.contextmanager
    def kept(
        self,
        warn: Callable[[str], None],
        error: Callable[[str], None],
        noun: str,
        size: int,
        total: int,
    ) -> Iterator[None]:
        """Remove the parts after a block that makes and joins them, ``size`` of ``total`` things
        each. Tell of other runs' parts, and after an interruption of those that are done.
        """
        for folder in self.others():
            warn(f"{folder} is left of a run with other options, models or input")
        try:
            yield
        except BaseException:
            if self.count:
                complete = counted(min(self.count * size, total), noun, "are")
                error(f"the first {complete} kept, the same command goes on")
            raise
        self.remove()

    def finished(self) -> str | None:
        """The summary of this run, if its outputs are complete: it was killed later."""
        is_complete = self._summary.exists() and self.outputs[0].exists()
        return read_text(self._summary) if is_complete else None

    def join(
        self,
        rows: int,
        width: int,
        write: Callable[[Iterator[list[str]]], None],
        summary: str,
    ) -> None:
        """Write the outputs, the table last.

        Once this has begun, a file of that name is this run's, also after a kill.

        Args:
            rows: number of rows of all parts.
            width: numbers of a vector.
            write: writes the table, the first output, from the cells of its rows.
            summary: text for `finished`.
        """
        self._check_free()
        write_text(self._summary, summary)
        for path in self.outputs[1:]:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            with atomic_write(path) as file:
                write_array_header_1_0(file, header)
                for part in self:
                    file.write(np.asarray(part.vectors, "<f4").tobytes())
        write(cells for part in self for cells in part.cells)

    def remove(self) -> None:
        """Remove the parts of a run whose outputs are complete."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._summary.unlink(missing_ok=True)

    def _check_free(self) -> None:
        if self._summary.exists():
            return
        for path in filter(os.path.lexists, self.outputs):
            raise ValueError(f"{path} exists already; remove it, or name another file")
