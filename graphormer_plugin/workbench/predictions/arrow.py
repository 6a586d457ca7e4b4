"""Predict tables of pyarrow: a function for Ray Data, Dask and Spark."""

import functools
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from graphormer_plugin.data.tables.parquet import array_of, cell, pyarrow_parquet
from graphormer_plugin.data.tables.table import Row, Table
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.checkpoint import packaged_models
from graphormer_plugin.inference.loading import load, usable_device
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.workbench.predictions.table_run import (
    BLOCK_ROWS,
    RunOptions,
    TableRun,
)

# The reasons come from RDKit's log, of which a process has one.
_turn = threading.Lock()


@dataclass(frozen=True)
class TablePredictor:
    """Function that adds predictions to a table of molecules.

    The new columns are as in ``graphormer-predict`` with Parquet: double, or text for
    classes with names, and ``reason``; null where there is none. The object only holds
    paths and numbers, so that an engine can send it to its workers. Each process loads the
    model once, at its first call. Threads of a process take turns.

    Example:
        >>> predict = TablePredictor("checkpoint_best.pt")
        >>> predict(pyarrow.table({"smiles": ["CCO"]}))          # doctest: +SKIP
        >>> dataset.map_batches(predict, batch_format="pyarrow")  # doctest: +SKIP

    Args:
        checkpoint: a checkpoint, a folder with the models of an ensemble, or the name of
            a model that comes with the package.
        smiles_column: column of SMILES; empty selects the column called smiles, or the
            only column with smiles in its name.
        max_atoms: atoms of the largest molecule; None: the limit of the training.
        device: cpu, cuda or cuda:1; None: a GPU if there is one.
    """

    checkpoint: str
    smiles_column: str = ""
    batch_size: int = 128
    max_atoms: int | None = None
    device: str | None = None
    head: str | None = HEAD_BESIDE_CHECKPOINT
    user_data_dir: str | None = None

    def __post_init__(self) -> None:
        # A worker may run in another folder.
        for name in ("checkpoint", "head", "user_data_dir"):
            value = getattr(self, name)
            if value not in (None, HEAD_BESIDE_CHECKPOINT, *packaged_models()):
                path = os.path.abspath(value) if os.path.exists(value) else str(value)
                object.__setattr__(self, name, path)

    def __call__(self, rows: Any) -> Any:
        """Predict a ``pyarrow.Table`` or ``RecordBatch``, a DataFrame of pandas, or an
        iterator of these. A molecule that cannot be predicted gets a reason."""
        if isinstance(rows, Iterator):
            return map(self, rows)
        if hasattr(rows, "iloc"):
            # pandas has several kinds of missing values.
            table = {
                name: column.astype(object).where(column.notna(), None).tolist
                for name, column in rows.items()
            }
            new = self._columns(table, len(rows))
            arrays = {name: array.to_pandas().array for name, array in new.items()}
            added = pandas.DataFrame(arrays, index=rows.index)
            return pandas.concat([rows, added], axis=1)
        table = {name: rows[name].to_pylist for name in rows.schema.names}
        for name, array in self._columns(table, rows.num_rows).items():
            rows = rows.append_column(name, array)
        return rows

    def spark_schema(self, schema: Any) -> Any:
        """Schema of the output for Spark's ``mapInArrow``, in which names count by their
        place only, so that a schema by hand may exchange columns without an error.

        Loads the model.
        """
        from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
        from pyspark.sql.types import StructType

        empty = to_arrow_schema(schema).empty_table()
        result = StructType(list(schema.fields))
        for column in list(self(empty).schema)[len(schema.fields) :]:
            result.add(column.name, from_arrow_type(column.type))
        return result

    def _columns(
        self, table: Mapping[str, Callable[[], list[Any]]], count: int
    ) -> dict[str, Any]:
        """New columns by name, as arrays of pyarrow, from functions that give the values
        of each column."""
        pyarrow_parquet()  # says how to install it
        header = Table(Path("table"), [*table])
        column = header.find_smiles(self.smiles_column)
        with _turn:
            named = self.checkpoint, self.device, self.head, self.user_data_dir
            predictor = _loaded(*named)
            options = RunOptions(column, max_atoms=self.max_atoms)
            run = TableRun(predictor, header, options, self.batch_size, {})
            read = {column, *predictor.extra_columns}
            columns = [
                map(cell, values()) if name in read else [""] * count
                for name, values in table.items()
            ]
            index = header.places[column]
            rows = [
                Row(row, row + 1, cells[index].strip(), [*cells])
                for row, cells in enumerate(zip(*columns))
            ]
            size = max(BLOCK_ROWS, 4 * self.batch_size)
            new = []
            outside: Counter[str] = Counter()
            for start in range(0, count, size):
                part = run(rows[start : start + size])
                new += [row[len(table) :] for row in part.cells]
                outside += part.outside
        for line in run.lines_about(outside, count):
            warnings.warn(line, stacklevel=3)
        cells = zip(*new) if new else [()] * len(run.names)
        new = dict(zip(run.names, cells, strict=True))
        for name, text in run.numbers.items():
            new[name] = ["" if cell == "" else text(cell) for cell in new[name]]
        return {name: array_of(x, name in run.numbers) for name, x in new.items()}


@functools.lru_cache(maxsize=4)
def _loaded(
    checkpoint: str, device: str | None, head: str | None, user_data_dir: str | None
) -> Predictor:
    return load(checkpoint, user_data_dir, head).to(usable_device(device))
