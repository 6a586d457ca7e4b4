"""Predictions for the rows of a table: the columns that `graphormer-predict` adds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from graphormer_plugin.data.errors import is_out_of_memory
from graphormer_plugin.data.tables.cells import number_in
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.heads.domain import outside_domain
from graphormer_plugin.inference.embedding import check_layers
from graphormer_plugin.inference.molecules import Molecules, read_rows
from graphormer_plugin.inference.prediction_columns import (
    free_names,
    prediction_columns,
)
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.inference.resumable_writer import Arrays

BLOCK_ROWS = 512  # rows that are predicted together, at least
REASON = "reason"  # column that says why a row has no prediction


class Rows(NamedTuple):
    """Consecutive rows of a table: number of the first row, and cells of each."""

    first: int
    cells: list[list[str]]


class PredictedRows(NamedTuple):
    """Rows of the output.

    Attributes:
        cells: cells of each row.
        arrays: rows for the files of `TableRun.arrays`.
        failed: number of rows without prediction.
        unlike: see `outside_domain`.
    """

    cells: list[list[str]]
    arrays: list[np.ndarray]
    failed: int
    unlike: Counter[str]


def rows_in_blocks(table: Table, first: int, end: int, size: int) -> Iterator[Rows]:
    """Yield ``size`` rows of a table at a time. Batches do not cross blocks, and an
    interrupted run goes on at the end of a block.
    """
    block: list[list[str]] = []
    for row, _, cells in table.rows_between(table.header, first, end):
        block.append(cells)
        if len(block) == size:
            yield Rows(row + 1 - len(block), block)
            block = []
    if block:
        yield Rows(row + 1 - len(block), block)


@dataclass(frozen=True)
class Vectors:
    """Vectors to write beside the predictions.

    Attributes:
        path: a ``.npy`` file.
        layers: number of last layers whose vectors are concatenated; 0: the checkpoint's
            own parts.
        fingerprint: GRPE's fingerprints, see `layer_vectors`.
    """

    path: Path
    layers: int = 1
    fingerprint: bool = False


class TableRun:
    """Predicts rows of a table.

    Args:
        predictor: the models.
        table: has the header of the input.
        smiles_column: name of its column of SMILES.
        batch_size: graphs per batch.
        max_atoms: atoms of the largest molecule; None: the smallest limit of the models.
        vectors: vectors to compute too; for a single model.
        numbers_in: how the cells of columns are read as numbers, by name; others by
            `number_in`.

    Attributes:
        names: names of the new columns, the last of which is the reason.
        name_of: their names by the names that they would have in an empty table.
        numbers: whether each of them has numbers.

    Raises:
        ValueError: a model cannot predict molecules, or the table lacks a column.
    """

    def __init__(
        self,
        predictor: Predictor,
        table: Table,
        smiles_column: str,
        *,
        batch_size: int = 128,
        max_atoms: int | None = None,
        vectors: Vectors | None = None,
        numbers_in: Mapping[str, Callable[[str], float]] = MappingProxyType({}),
    ) -> None:
        self.predictor = predictor
        self.batch_size = batch_size
        self.vectors = vectors
        self.reader = predictor.reader(max_atoms)
        for member in predictor.members:
            self._check(member)
        extra_columns = predictor.extra_columns
        if lacking := [name for name in extra_columns if name not in table.header]:
            raise ValueError(
                f"{table.path}: no column {lacking[0]!r}; the model reads the columns "
                f"{', '.join(extra_columns)} beside the molecules"
            )
        self.place = table.header.index(smiles_column)
        self.extra = [
            (table.header.index(name), numbers_in.get(name, number_in))
            for name in extra_columns
        ]
        none = np.empty((0, predictor.targets.num_outputs))
        per_target = any(one.labelled is not None for one in predictor.domains)
        columns = prediction_columns(
            predictor.targets,
            none,
            none if predictor.has_spread else None,
            (none if per_target else none[:, 0]) if predictor.domains else None,
            logs=predictor.logs,
            interval=predictor.interval,
        )
        names = [*(column.name for column in columns), REASON]
        self.names = free_names(names, table.header)
        self.name_of = dict(zip(names, self.names))
        self.numbers = [*(column.is_number for column in columns), False]

    def _check(self, member: Predictor) -> None:
        """Raise ValueError if a model has no such vectors."""
        try:
            if self.vectors and self.vectors.layers:
                v = self.vectors
                check_layers(member.model, v.layers, False, v.fingerprint)
        except ValueError as error:
            raise ValueError(f"{member.name}: {error}") from None

    def arrays(self) -> Arrays:
        """Files of vectors, as `ResumableWriter` takes them."""
        if not self.vectors:
            return {}
        path = self.vectors.path
        width = self.predictor.vector_width(self.vectors.layers)
        return {path: (np.float32, (width,))}

    def smiles(self, rows: Rows) -> list[str]:
        """SMILES of rows."""
        return [cells[self.place].strip() for cells in rows.cells]

    def __call__(self, rows: Rows) -> PredictedRows:
        """Read and predict rows.

        Raises:
            ValueError: not enough memory.
        """
        return self.predict(rows, *read_rows(self.reader, self.smiles(rows)))

    def predict(
        self, rows: Rows, molecules: Molecules, reasons: dict[int, str]
    ) -> PredictedRows:
        """Predict rows that `read_rows` has read; ``reasons`` gets further reasons.

        Raises:
            ValueError: not enough memory.
        """
        count = len(rows.cells)
        extra = self._extra(rows, reasons)
        predicted: dict[int, tuple[str, ...]] = {}
        arrays: list[np.ndarray] = []
        unlike: Counter[str] = Counter()
        try:
            if len(molecules):
                row_of = molecules.chunk.row.tolist()
                prediction = self.predictor.estimate(
                    molecules, self.batch_size, extra=extra[row_of]
                )
                parts = [np.c_[part] for part in prediction if part is not None]
                finite = np.isfinite(np.concatenate(parts, 1)).all(1)
                for at in np.flatnonzero(~finite):
                    reasons.setdefault(row_of[at], "the prediction is not finite")
                kept = [at for at, row in enumerate(row_of) if row not in reasons]
                values = (None if part is None else part[kept] for part in prediction)
                columns = prediction_columns(
                    self.predictor.targets,
                    *values,
                    logs=self.predictor.logs,
                    interval=self.predictor.interval,
                )
                cells = zip(*(column.cells for column in columns), strict=True)
                predicted = dict(zip([row_of[at] for at in kept], cells, strict=True))
                if prediction.in_domain is not None:
                    mols = [molecules.described[at] for at in kept]
                    unlike = outside_domain(
                        self.predictor.domains, mols, prediction.in_domain[kept]
                    )
            if self.vectors:
                arrays = self._embed(molecules, count, reasons)
        except (RuntimeError, MemoryError) as error:
            of_gpu = isinstance(error, torch.OutOfMemoryError)
            if not of_gpu and not is_out_of_memory(error):
                raise
            nodes = int(molecules.chunk.num_nodes.max())
            raise ValueError(
                f"rows {rows.first} to {rows.first + count - 1} do not fit into memory, "
                f"their largest molecule has {nodes:,} atoms; give a --batch-size below "
                f"{self.batch_size}, or leave out large molecules"
            ) from None
        silent = [row for row in range(count) if not reasons.get(row, row in predicted)]
        assert not silent, f"row {rows.first + silent[0]}: no prediction and no reason"
        empty = [""] * (len(self.names) - 1)
        table = [
            [*cells, *predicted.get(row, empty), reasons.get(row, "")]
            for row, cells in enumerate(rows.cells)
        ]
        return PredictedRows(table, arrays, count - len(predicted), unlike)

    def _extra(self, rows: Rows, reasons: dict[int, str]) -> np.ndarray:
        """Numbers of the columns that the models need [rows, columns]."""
        extra = np.full((len(rows.cells), len(self.extra)), np.nan)
        for row, cells in enumerate(rows.cells):
            try:
                extra[row] = [number(cells[at]) for at, number in self.extra]
            except ValueError as error:
                reasons.setdefault(row, str(error))
        return extra

    def _embed(
        self, molecules: Molecules, count: int, reasons: dict[int, str]
    ) -> list[np.ndarray]:
        """Rows for each file of `arrays`."""
        vectors = self.vectors
        width = self.predictor.vector_width(vectors.layers)
        embedded = self.predictor.embed(
            molecules,
            vectors.layers,
            batch_size=self.batch_size,
            fingerprint=vectors.fingerprint,
        )
        row_of = [] if molecules.chunk is None else molecules.chunk.row.tolist()
        of_row = {r: v for r, v in zip(row_of, embedded) if r not in reasons}
        rows = [*of_row]
        result = np.full((count, width), np.nan, np.float32)
        if rows:
            result[rows] = [*of_row.values()]
        return [result]
