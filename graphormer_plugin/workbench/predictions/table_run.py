"""Predictions for the rows of a table: the columns that `graphormer-predict` adds."""

import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graphormer_plugin.data.columns import Columns
from graphormer_plugin.data.errors import is_out_of_memory
from graphormer_plugin.data.graphs.conformers import (
    LENGTH_UNITS,
    doubt_of_unit,
    likely_units,
)
from graphormer_plugin.data.graphs.smiles import (
    OGBFeaturiser,
    bare_carbons,
    lines_about_bare,
)
from graphormer_plugin.data.graphs.start_molecules import (
    SEEN,
    START_HAS_SEEN,
    has_seen,
    seen_text,
)
from graphormer_plugin.data.tables.cells import number_in
from graphormer_plugin.data.tables.table import Row, Table
from graphormer_plugin.estimators.domain import (
    MoleculeDescription,
    domain_warnings,
    outside_domain,
)
from graphormer_plugin.estimators.kernels import as_mol
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.embedding import check_layers
from graphormer_plugin.inference.molecules import Molecules, read_rows
from graphormer_plugin.inference.prediction_columns import OutputColumn, free_names
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.workbench.predictions.answers import OfMolecules, answers_of
from graphormer_plugin.workbench.predictions.shortlist import Wanted

BLOCK_ROWS = 512  # rows that are predicted together, at least
BARE = "bare"  # rows with `bare_carbons`
REASON = "reason"  # column that says why a row has no prediction


@dataclass(frozen=True)
class RowRange:
    """Rows of a table from ``first`` to before ``end``, predicted ``size`` at a time."""

    first: int
    end: int
    size: int

    @property
    def total(self) -> int:
        """Number of rows."""
        return self.end - self.first

    def after(self, count: int) -> "RowRange":
        """The range without its first rows."""
        return replace(self, first=self.first + count)


@dataclass(frozen=True)
class RunOptions:
    """What predictions depend on, beside the models and the rows.

    Attributes:
        smiles_column: column of SMILES; empty: see `Table.find_smiles`.
        head: see `load`.
        embeddings: whether vectors are written, too.
        layers: last layers whose vectors are written, see `Predictor.embed`.
        fingerprint: whether they are GRPE's fingerprints.
        max_atoms: atoms of the largest molecule; None: the limit of the training.
        dtype: ``bf16`` multiplies matrices in bfloat16; None does not.
        user_data_dir: folder with modules of the user.
        length_unit: unit of positions; empty: angstrom, which may be doubted.
        mean: see `Predictor`.
        cut_off: see `Target`; None: that of the models.
        wanted: of a shortlist; None: without.
        members: see `Predictor.each`.
        target: of a batch, see `OfCandidates`; None: the first.
    """

    smiles_column: str = ""
    head: str | None = HEAD_BESIDE_CHECKPOINT
    embeddings: bool = False
    layers: int | None = None
    fingerprint: bool = False
    max_atoms: int | None = None
    dtype: str | None = None
    user_data_dir: str | None = None
    length_unit: str = ""
    mean: bool = False
    cut_off: float | None = None
    wanted: Wanted | None = None
    members: bool = False
    target: str | None = None


class PredictedRows(NamedTuple):
    """Rows of the output.

    Attributes:
        cells: the cells of each, see `OutputColumn`; empty without prediction.
        values: predictions [rows, C], NaN in rows without one.
        vectors: float32 [rows, D], NaN in rows without one; D is `TableRun.width`.
        outside: see `outside_domain`, `likely_units` and `BARE`.
    """

    cells: list[list[Any]]
    values: np.ndarray
    vectors: np.ndarray
    outside: Counter[str]

    @property
    def failed(self) -> int:
        """Number of rows without a prediction."""
        return int(np.isnan(self.values).all(1).sum())

    def to_arrays(self) -> Columns:
        """All of it in arrays that need no pickle."""
        text = np.frombuffer(json.dumps([self.cells, self.outside]).encode(), np.uint8)
        return {"cells": text, "values": self.values, "vectors": self.vectors}

    @classmethod
    def from_arrays(cls, arrays: Columns) -> "PredictedRows":
        """Inverse of `to_arrays`."""
        cells, outside = json.loads(arrays["cells"].tobytes())
        return cls(cells, arrays["values"], arrays["vectors"], Counter(outside))


class TableRun:
    """Predicts rows of a table.

    Args:
        table: has the header of the input.
        numbers_in: functions that read the cells of columns as numbers, by name; by default
            `number_in`.
        answers: makes the answers of the predictor.

    Attributes:
        names: names of the new columns, the last of which is the reason.
        numbers: those of numbers, with what makes text of one.
        width: numbers of a vector; 0 without vectors.
        read: `read_rows` of sources, also in a worker.
    """

    def __init__(
        self,
        predictor: Predictor,
        table: Table,
        options: RunOptions,
        batch_size: int,
        numbers_in: Mapping[str, Callable[[str], float]],
        answers: Callable[[Predictor], OfMolecules] = answers_of,
    ) -> None:
        self.predictor = predictor
        form = predictor.featuriser.reads, options.length_unit
        self.table = table = table.in_format(*form)
        self.options = options
        self.batch_size = batch_size
        self.read = functools.partial(read_rows, predictor.reader(options.max_atoms))
        self.layers = None  # whose vectors are written
        self.width = 0
        if options.embeddings:
            fingerprint = options.fingerprint
            member = predictor.member
            self.layers = options.layers or member.default_layers(fingerprint)
            self.width = member.vector_width(self.layers)
            if self.layers:
                check_layers(predictor.model, self.layers, fingerprint=fingerprint)
        extra_columns = predictor.extra_columns
        if lacking := [name for name in extra_columns if name not in table.header]:
            raise ValueError(
                f"{table.path}: no column {lacking[0]!r}; the model reads the columns "
                f"{', '.join(extra_columns)} beside the molecules"
            )
        self.extra = [
            (table.header.index(name), numbers_in.get(name, number_in))
            for name in extra_columns
        ]
        self.answers = answers(predictor)
        columns = self.answers.columns(self.answers.empty)
        if predictor.seen is not None:
            columns.append(OutputColumn(START_HAS_SEEN, []))
        names = [*(column.name for column in columns), REASON]
        taken = self.answers.taken(table.taken)
        self.names = free_names(names, taken)
        texts = zip(self.names, (column.text for column in columns))
        self.numbers = {name: text for name, text in texts if text is not None}

    def blocks(self, part: RowRange) -> Iterator[list[Row]]:
        """Yield the rows of a range, ``size`` at a time."""
        table = self.table
        rows = table.rows(
            table.header, self.options.smiles_column, part.first, part.end
        )
        while block := [*itertools.islice(rows, part.size)]:
            yield block

    def __call__(self, block: Sequence[Row]) -> PredictedRows:
        """Read and predict rows."""
        return self.predict(block, *self.read([row.source for row in block]))

    def predict(
        self, block: Sequence[Row], molecules: Molecules, reasons: dict[int, str]
    ) -> PredictedRows:
        """Predict rows that `read` has read; ``reasons`` gets further reasons."""
        count = len(block)
        extra = self.numbers_beside(block, reasons)
        values = np.full((count, self.answers.width), np.nan)
        vectors = np.full((count, self.width), np.nan, np.float32)
        added: dict[int, Iterable[Any]] = {}
        outside: Counter[str] = Counter()
        if len(molecules):
            rows = molecules.chunk.row
            try:
                answer = self.answers(molecules, self.batch_size, extra[rows])
                embedded = self._embed(molecules)
            except (RuntimeError, MemoryError) as error:
                raise self._too_large(block, molecules, error) from error
            for row in rows[~answer.is_finite].tolist():
                reasons.setdefault(row, "the prediction is not finite")
            is_predicted = np.array(
                [row not in reasons for row in rows.tolist()], np.bool_
            )
            answer = answer.select(is_predicted)
            prediction = answer.prediction
            rows = rows[is_predicted]
            values[rows] = prediction.values
            vectors[rows] = embedded[is_predicted]
            columns = [c.cells for c in self.answers.columns(answer)]
            seen = self.predictor.seen
            if seen is not None or prediction.in_domain is not None:
                mols = list(itertools.compress(molecules.descriptor_mols, is_predicted))
            if seen is not None:
                columns.append(has_seen(seen, [*map(as_mol, mols)]).tolist())
                outside += Counter(columns[-1])
            added = dict(zip(rows.tolist(), zip(*columns)))
            if prediction.in_domain is not None:
                domains = self.predictor.domains
                outside += outside_domain(
                    domains,
                    MoleculeDescription.of(mols),
                    prediction.in_domain,
                    self.predictor.extra_columns,
                    extra[rows],
                )
            if isinstance(molecules.featuriser, OGBFeaturiser):
                graph = np.repeat(molecules.chunk.row, molecules.chunk.num_nodes)
                outside[BARE] = len(np.unique(graph[bare_carbons(molecules.chunk.x)]))
            outside |= self.predictor.unseen(molecules, extra[rows])
            outside += likely_units(molecules.nearest)
        none = [""] * (len(self.names) - 1)
        lines = [
            [*row.cells, *added.get(index, none), reasons.get(index, "")]
            for index, row in enumerate(block)
        ]
        return PredictedRows(lines, values, vectors, outside)

    def lines_about(self, outside: Counter[str], rows: int) -> list[str]:
        """What is to be said of rows, by the sum of their `PredictedRows.outside`."""
        units = Counter({unit: outside.pop(unit, 0) for unit in LENGTH_UNITS})
        doubt = doubt_of_unit(units)
        words = Counter({word: outside.pop(word, 0) for word in ("no", *SEEN)})
        seen = any(map(words.get, SEEN))
        return [
            *([seen_text(words, rows, "rows")] if seen else []),
            *lines_about_bare(outside.pop(BARE, 0)),
            *([doubt] if doubt and not self.options.length_unit else []),
            *domain_warnings(outside, self.predictor.domains, rows),
        ]

    def numbers_beside(
        self, block: Sequence[Row], reasons: dict[int, str]
    ) -> np.ndarray:
        """Numbers of the columns that the models need [rows, columns]."""
        extra = np.full((len(block), len(self.extra)), np.nan)
        for row, (*_, cells) in enumerate(block):
            try:
                extra[row] = [parse(cells[index]) for index, parse in self.extra]
            except ValueError as error:
                reasons.setdefault(row, str(error))
        return extra

    def _embed(self, molecules: Molecules) -> np.ndarray:
        """Vectors of molecules [n, `width`]."""
        if self.layers is None:
            return np.empty((len(molecules), 0))
        options = {"batch_size": self.batch_size}
        options["fingerprint"] = self.options.fingerprint
        return self.predictor.embed(molecules, self.layers, **options)

    def _too_large(
        self, block: Sequence[Row], molecules: Molecules, error: Exception
    ) -> Exception:
        """The error with the rows, if the memory was not enough; else the error."""
        if not is_out_of_memory(error):
            return error
        nodes = int(molecules.chunk.num_nodes.max())
        return ValueError(
            f"rows {block[0].number} to {block[-1].number} do not fit into "
            f"memory, their largest molecule has {nodes:,} atoms; give a --batch-size "
            f"below {self.batch_size}, or leave out large molecules"
        )
