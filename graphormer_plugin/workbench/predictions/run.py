"""A run of predictions: a table in, a table out, in parts that outlive a kill."""

import contextlib
import dataclasses
import functools
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.files import (
    file_lock,
    file_sha256,
    folder_hash,
    home_path,
    text_sha256,
)
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.sources.user_code import import_user_data
from graphormer_plugin.data.store.featurise import num_workers
from graphormer_plugin.data.tables.atoms import AtomsTable
from graphormer_plugin.data.tables.formats import (
    SmilesTable,
    check_output,
    write_table,
)
from graphormer_plugin.data.tables.rows import whole_columns
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.estimators.domain import domain_file
from graphormer_plugin.estimators.prediction import names_and_unit
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.loading import head_file, load, usable_device
from graphormer_plugin.inference.model_folder import ModelFolder
from graphormer_plugin.inference.prediction_columns import OutputColumn, free_names
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.workbench.predictions.answers import OfMolecules, answers_of
from graphormer_plugin.workbench.predictions.prediction_chunks import PredictionChunks
from graphormer_plugin.workbench.predictions.score_predictions import TableScores
from graphormer_plugin.workbench.predictions.shortlist import shortlist_of
from graphormer_plugin.workbench.predictions.table_run import (
    BLOCK_ROWS,
    PredictedRows,
    RowRange,
    RunOptions,
    TableRun,
)
from graphormer_plugin.workers import in_workers


@dataclass(frozen=True)
class RunSettings:
    """How the machine predicts. ``workers`` are processes; None: see `num_workers`."""

    batch_size: int = 128
    device: str | None = None
    workers: int | None = None
    progress: bool = True


class Lines(NamedTuple):
    """Functions that show a line to the person who runs the command."""

    result: Callable[[str], None]
    warning: Callable[[str], None]
    error: Callable[[str], None]


class Asked(NamedTuple):
    """The predictions that are asked for.

    Attributes:
        outputs: the table to write, and a .npy file where the options ask for vectors.
        shard: part of the rows.
    """

    models: ModelFolder
    table: Table
    outputs: Sequence[Path]
    shard: Shard
    options: RunOptions
    settings: RunSettings
    lines: Lines


def model_identity(
    models: ModelFolder,
    user_data_dir: str | None,
    head: str | None = HEAD_BESIDE_CHECKPOINT,
) -> list[Any]:
    """What a model predicts by: digests of the files of checkpoints and heads, and of the folder
    with modules of the user, and what is known of the models together."""
    files = []
    for path in models.checkpoints:
        files.append(path)
        for beside in (head_file(path, head), domain_file(path)):
            if beside is not None and beside.exists():
                files.append(beside)
    files += [models.seen] if models.seen else []
    digests = [file_sha256(file) for file in files]
    if user_data_dir is not None:
        digests.append(folder_hash(home_path(user_data_dir)))
    folder = dataclasses.asdict(models)
    folder |= {"checkpoints": len(models.checkpoints), "source": "", "seen": ""}
    return [digests, folder]


def run_digest(
    options: RunOptions, models: ModelFolder, table: Table, rows: RowRange
) -> str:
    """Digest of all that the parts of a run depend on."""
    own = [dataclasses.asdict(options), table.digest, dataclasses.asdict(rows)]
    own += model_identity(models, options.user_data_dir, options.head)
    return text_sha256(json.dumps(own))


def predict_table(asked: Asked) -> None:
    """Predict the rows of a table, write them, and show their metrics if they have labels;
    see `started`."""
    check_output(asked.outputs[0], asked.table)
    with started(asked) as begun:
        if begun is not None:
            _write(begun, asked.models, asked.lines)


@dataclass(frozen=True)
class Started:
    """A run, the rows that it predicts, and its parts."""

    run: TableRun
    rows: RowRange
    parts: PredictionChunks
    settings: RunSettings

    def __iter__(self) -> Iterator[PredictedRows]:
        """Yield the parts that are there, then predict and write the others."""
        total = self.rows.total
        count = self.parts.count
        done = min(count * self.rows.size, total)
        new = _predicted(self.run, self.rows.after(done), self.settings)
        with tqdm(total=total, unit="mol", disable=not self.settings.progress) as bar:
            for part in itertools.chain(self.parts, map(self.parts.write, new)):
                bar.update(len(part.cells))
                yield part


@contextlib.contextmanager
def started(
    asked: Asked, answers: Callable[[Predictor], OfMolecules] = answers_of
) -> Iterator[Started | None]:
    """Start a run whose parts outlive a kill, and at the end remove them.

    A run that was killed goes on; one that was killed behind its last row shows its
    summary, and None is given. A second process with this output waits. For ``answers`` see
    `TableRun`.
    """
    models, table, outputs, shard, options, settings, lines = asked
    waiting = f"another process writes {outputs[0]}; waiting"
    with file_lock(outputs[0], lambda: lines.warning(waiting), keep=False):
        column = table.find_smiles(options.smiles_column)
        options = replace(options, smiles_column=column)
        # Read the whole file first: an error in the last row must not show up after hours.
        count = table.count()
        if count == 0:
            raise ValueError(f"{table.path}: {table.no_rows}")
        rows = RowRange(*shard.rows(count), max(BLOCK_ROWS, 4 * settings.batch_size))
        parts = PredictionChunks(outputs, run_digest(options, models, table, rows))
        if (summary := parts.finished()) is not None:
            lines.result(f"{outputs[0]} is finished\n{summary}")
            parts.remove()
            yield None
            return
        run = _table_run(models, table, options, settings, answers)
        for note in table.notes:
            lines.warning(f"{table.path}: {note}")
        with parts.kept(lines.warning, lines.error, "row", rows.size, rows.total):
            yield Started(run, rows, parts, settings)


def _write(begun: Started, models: ModelFolder, lines: Lines) -> None:
    """Predict the parts that are missing, write the outputs, and show the summary."""
    run = begun.run
    rows = begun.rows
    parts = begun.parts
    table = run.table
    targets = run.predictor.targets
    scores = TableScores(run.predictor, table, models.missing_labels)
    wanted = run.options.wanted
    shortlist = wanted and shortlist_of(wanted, targets, models)
    column = run.options.smiles_column
    output = parts.outputs[0]
    start = time.monotonic()
    failed = 0
    outside: Counter[str] = Counter()
    values = []
    done = min(parts.count * rows.size, rows.total)
    for part in begun:
        scores.add(part)
        failed += part.failed
        outside += part.outside
        values += [part.values[:, shortlist.output]] if shortlist else []
    rate = (rows.total - done) / (time.monotonic() - start)
    without = f", {failed:,} without prediction" if failed else ""
    counts = f"{counted(rows.total, 'row')}{without}; {names_and_unit(targets)}"
    summary = f"{output}: {counts}; {rate:,.0f} molecules/s"
    if text := scores.text(lines.warning):
        summary += f"\n{text}"
    columns: list[OutputColumn] = []
    if shortlist is not None:
        columns, text = shortlist.columns(np.concatenate(values))
        summary += f"\n{text}"
    new = free_names([c.name for c in columns], [*table.taken, *run.names])
    names = [*run.names[:-1], *new, run.names[-1]]
    numbers = run.numbers | {n: c.text for n, c in zip(new, columns) if c.text}

    def _write_cells(cells: Iterator[list[Any]]) -> None:
        added = zip(*(c.cells for c in columns)) if columns else itertools.repeat(())
        joined = ([*row, *more, reason] for (*row, reason), more in zip(cells, added))
        written = itertools.chain([[*table.header, *names]], joined)
        ends = rows.first, rows.end
        write_table(output, written, table, column, numbers, *ends)

    parts.join(rows.total, run.width, _write_cells, summary)
    lines.result(summary)
    for line in run.lines_about(outside, rows.total):
        lines.warning(line)
    if failed == rows.total > 0:
        where = f"; the reasons are in column {run.names[-1]!r}"
        if not isinstance(table, SmilesTable | AtomsTable):  # it has no other column
            where += ". --smiles-column names another column"
        lines.warning(f"nothing in column {column!r} could be predicted{where}")


def _predicted(
    run: TableRun, rows: RowRange, settings: RunSettings
) -> Iterator[PredictedRows]:
    """Yield the predictions for parts of rows, in their order.

    On a CPU each worker predicts on one thread, so that no core waits for another. With a
    GPU the workers only read SMILES.
    """
    blocks = run.blocks(rows)
    on_cpu = run.predictor.device.type == "cpu"
    fork = sys.platform == "linux"
    least = [BLOCK_ROWS + 1] if on_cpu and fork else []
    workers = num_workers(settings.workers, rows.total, *least)
    start = functools.partial(_start_worker, run.options.user_data_dir)
    if on_cpu or not workers:
        return in_workers(workers, run, ((block,) for block in blocks), start, fork)
    blocks, again = itertools.tee(blocks)
    calls = (([row.source for row in block],) for block in again)
    read = in_workers(workers, run.read, calls, start)
    return (run.predict(block, *molecules) for block, molecules in zip(blocks, read))


def _start_worker(user_data_dir: str | None) -> None:
    """Use one thread, and import the modules of the user."""
    torch.set_num_threads(1)
    threadpool_limits(1)
    if user_data_dir is not None:
        import_user_data(home_path(user_data_dir))


def _table_run(
    models: ModelFolder,
    table: Table,
    options: RunOptions,
    settings: RunSettings,
    answers: Callable[[Predictor], OfMolecules],
) -> TableRun:
    """The models, on their device, with the options of the predictions."""
    device = usable_device(settings.device)
    predictor = load(models, options.user_data_dir, options.head).to(device)
    predictor.mean = options.mean
    predictor.each = options.members
    if options.members and (
        len(predictor.members) < 2 or predictor.targets.node_vector
    ):
        raise ValueError("--members is for several models of values of a molecule")
    if options.cut_off is not None:
        cuts = [options.cut_off] * len(predictor.targets.targets)
        predictor.targets = predictor.targets.changed(cut_off=cuts)
    if options.dtype == "bf16":
        predictor.bfloat16()
    extra = [name for name in predictor.extra_columns if name in table.places]
    read = whole_columns(table, extra) if extra else {}
    numbers_in = {name: column.number for name, column in read.items()}
    return TableRun(predictor, table, options, settings.batch_size, numbers_in, answers)
