"""Parts of a run of predictions: a part whose file is there is done."""

import glob
import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import write_array_header_1_0

from graphormer_plugin.data.files import atomic_write, read_arrays
from graphormer_plugin.inference.table_run import PredictedRows


class PartFiles:
    """Finished parts of a run, in a folder beside the files that it writes.

    The same run, started again after a kill, reads the parts that are done. The name of
    the folder ends in ``key``, the digest of all that the predictions depend on: no other
    run reads them. ValueError if an output is there already.
    """

    def __init__(self, outputs: Sequence[Path], key: str) -> None:
        table, *_ = self.outputs = outputs
        self.folder = table.with_name(f"{table.name}.{key[:16]}.parts")
        self._joining = self.folder / "joining"
        self._check_free()
        count = itertools.count()
        self.count = next(n for n in count if not self._file(n).exists())

    def others(self) -> list[Path]:
        """Folders of unfinished runs with other options, models or input."""
        name = glob.escape(self.outputs[0].name)
        return sorted({*self.folder.parent.glob(f"{name}.*.parts")} - {self.folder})

    def write(self, part: PredictedRows) -> PredictedRows:
        """Write the next part; returns it."""
        self.folder.mkdir(exist_ok=True)
        text = np.frombuffer(json.dumps([part.cells, part.outside]).encode(), np.uint8)
        with atomic_write(self._file(self.count)) as file:
            np.savez(file, text=text, values=part.values, vectors=part.vectors)
        self.count += 1
        return part

    def read(self) -> Iterator[PredictedRows]:
        """Yield the parts that are done."""
        for number in range(self.count):
            arrays = read_arrays(self._file(number))
            cells, outside = json.loads(arrays["text"].tobytes())
            values, vectors = arrays["values"], arrays["vectors"]
            yield PredictedRows(cells, values, vectors, Counter(outside))

    def join(
        self, rows: int, width: int, write: Callable[[Iterator[list[str]]], None]
    ) -> None:
        """Write the outputs, then remove the parts.

        Once this has begun, a file of that name is this run's, also after a kill.

        Args:
            rows: number of rows of all parts.
            width: numbers of a vector.
            write: writes the table, the first output, from the cells of its rows.
        """
        self._check_free()
        self.folder.mkdir(exist_ok=True)
        self._joining.touch()
        for path in self.outputs[1:]:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            with atomic_write(path) as file:
                write_array_header_1_0(file, header)
                for part in self.read():
                    file.write(np.asarray(part.vectors, "<f4").tobytes())
        write(cells for part in self.read() for cells in part.cells)
        self._joining.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _check_free(self) -> None:
        if self._joining.exists():
            return
        for path in filter(os.path.lexists, self.outputs):
            raise ValueError(f"{path} exists already; remove it, or name another file")

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"
