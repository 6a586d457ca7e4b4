"""The run of ``graphormer-predict``: the models, the rows, and the lines about them."""

import argparse
import functools
import hashlib
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rdkit import rdBase
from tqdm import tqdm

from graphormer_plugin.cli import RDKIT_WARNINGS, complain, say, warn
from graphormer_plugin.data.featurise import num_workers
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.tables.formats import SmilesTable, write_table
from graphormer_plugin.data.tables.rows import columns_of_whole
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.heads.domain import domain_file, domain_warnings
from graphormer_plugin.heads.prediction import names_and_unit
from graphormer_plugin.inference import BESIDE
from graphormer_plugin.inference.complete_output import check_complete
from graphormer_plugin.inference.loading import head_file, load, usable_device
from graphormer_plugin.inference.model_folder import ModelFolder, models_named
from graphormer_plugin.inference.pool import can_fork, forked_pool, predicted_rows
from graphormer_plugin.inference.resumable_writer import ResumableWriter, is_interrupted
from graphormer_plugin.inference.table_run import (
    BLOCK_ROWS,
    TableRun,
    Vectors,
    rows_in_blocks,
)

RECORD_VERSION = 1


def predict_table(arguments: argparse.Namespace, table: Table) -> None:
    """Predict the rows of a table, write them, and say their metrics if they have labels."""
    models = models_of(arguments)
    rdBase.DisableLog(RDKIT_WARNINGS)
    shard = arguments.shard
    output = shard.path(Path(arguments.output))
    column = table.find_smiles(arguments.smiles_column)
    # Read the whole file first: an error in the last row must not show up after hours.
    count = table.count()
    if count == 0:
        raise ValueError(f"{table.path}: {table.no_rows}")
    begin, end = shard.rows(count)
    total = end - begin
    run = table_run(arguments, models, table, column)
    for note in table.notes:
        warn(f"{table.path}: {note}")
    *names, reason = run.names
    if arguments.resume and output.exists() and not is_interrupted(output):
        check_complete(output, run.arrays(), table, column, (begin, end), run.names)
        say(f"{output} is complete, there is no run to resume")
        say_metrics(run, table, (begin, end), output, models.missing_labels)
        return
    convert = None
    if output.suffix.lower() != ".csv":
        convert = functools.partial(
            write_table,
            table=table,
            column=column,
            numbers=set(itertools.compress(names, run.numbers)),
            first=begin,
            end=end,
        )
    size = max(BLOCK_ROWS, 4 * arguments.batch_size)
    forks = can_fork(run.predictor.device)
    least = (size + 1,) if forks else ()
    workers = num_workers(arguments.workers, total, *least)
    with forked_pool(run, workers if forks else 0) as pool:
        files = ResumableWriter(
            output,
            [*table.header, *run.names],
            run.arrays(),
            run_key(arguments, models, column, table.digest(begin, end)),
            arguments.resume,
            convert,
        )
        first, started = files.rows, time.monotonic()
        bar = tqdm(
            total=total,
            initial=first,
            unit="mol",
            disable=arguments.quiet,
            smoothing=0.05,
        )
        try:
            with bar:
                rows = rows_in_blocks(table, begin + first, end, size)
                for block in predicted_rows(run, rows, workers, pool):
                    files.append(*block)
                    bar.update(len(block.cells))
            files.finish()
        except BaseException:
            if files.rows:
                text = f"the first {files.rows:,} rows are kept; continue with --resume"
                complain(text)
            raise
        finally:
            files.close()
    rate = (total - first) / (time.monotonic() - started)
    failed = f", {files.failed:,} without prediction" if files.failed else ""
    targets = names_and_unit(run.predictor.targets)
    say(f"{output}: {total:,} rows{failed}; {targets}; {rate:,.0f} molecules/s")
    say_metrics(run, table, (begin, end), output, models.missing_labels)
    for line in domain_warnings(files.unlike, run.predictor.domains):
        warn(line)
    if total and files.failed == total:
        is_list = isinstance(table, SmilesTable)  # without another column
        advice = "" if is_list else ". --smiles-column names another column"
        warn(
            f"nothing in column {column!r} could be predicted; the reasons are in column "
            f"{reason!r}{advice}"
        )


def say_metrics(
    run: TableRun,
    table: Table,
    rows: tuple[int, int],
    output: Path,
    missing: Sequence[str],
) -> None:
    """Show the metrics of a finished output, if its rows of the table have labels."""
    if not {*run.predictor.targets.names}.isdisjoint(table.places):
        from graphormer_plugin.experiment.scored_table import scored_text

        if text := scored_text(run, table, rows, output, missing, warn):
            say(text)


def table_run(
    arguments: argparse.Namespace, models: ModelFolder, table: Table, column: str
) -> TableRun:
    """The models, on their device, with the options of the predictions."""
    device = usable_device(arguments.device)
    predictor = load(models, arguments.user_data_dir, arguments.head).to(device)
    vectors = None
    if arguments.embeddings:
        path = arguments.shard.path(Path(arguments.embeddings))
        fingerprint = arguments.grpe_fingerprint
        layers = arguments.layers or predictor.own_layers(fingerprint)
        vectors = Vectors(path, layers, fingerprint)
    if arguments.dtype == "bf16":
        predictor.bfloat16()
    extra = [name for name in predictor.extra_columns if name in table.places]
    columns = columns_of_whole(table, extra) if extra else {}
    return TableRun(
        predictor,
        table,
        column,
        batch_size=arguments.batch_size,
        max_atoms=arguments.max_atoms,
        vectors=vectors,
        numbers_in={name: column.number for name, column in columns.items()},
    )


def models_of(arguments: argparse.Namespace) -> ModelFolder:
    """Models that the arguments name; ValueError if several are given a head or a file
    of vectors."""
    models = models_named(arguments.checkpoints)
    if len(models.checkpoints) > 1:
        if arguments.embeddings is not None:
            raise ValueError("--embeddings is for one checkpoint, not for an ensemble")
        if arguments.head not in (BESIDE, None):
            raise ValueError("--head FILE is for one checkpoint, not for an ensemble")
    return models


def run_key(
    arguments: argparse.Namespace, models: ModelFolder, column: str, rows: str
) -> str:
    """Digest of everything that the rows of a run depend on; resuming needs the same.

    ``--max-atoms`` is not part of it: a lower limit lets a run continue past a molecule
    that was too large for the memory. ``rows`` is a digest of the rows of the input.
    """
    parts: list[Any] = [RECORD_VERSION, column, rows]
    parts += [arguments.shard.number, arguments.shard.count]
    parts.append([file_sha256(path) for path in models.checkpoints])
    parts += [models.spread_scale, models.spread_floor]
    parts += models.log_targets
    if models.factors:
        parts += [models.coverage, models.factors]
    for path in models.checkpoints:
        beside = [head_file(path, arguments.head), domain_file(path)]
        parts.append([file_sha256(file) for file in beside if file and file.exists()])
    parts += [arguments.dtype, arguments.embeddings is not None]
    parts += [arguments.layers, arguments.grpe_fingerprint]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
