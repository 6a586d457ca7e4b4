"""The run of ``graphormer-predict``: the models, the rows, and the lines about them."""

import argparse
import dataclasses
import functools
import hashlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from rdkit import rdBase
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from graphormer_plugin.cli import RDKIT_WARNINGS, print_error, print_line, print_warning
from graphormer_plugin.data.featurise import num_workers
from graphormer_plugin.data.files import file_lock, file_sha256, folder_hash, home_path
from graphormer_plugin.data.tables.formats import SmilesTable, write_table
from graphormer_plugin.data.tables.rows import whole_columns
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.data.user_code import import_user_data
from graphormer_plugin.heads.domain import domain_file, domain_warnings
from graphormer_plugin.heads.prediction import names_and_unit
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.loading import head_file, load, usable_device
from graphormer_plugin.inference.model_folder import ModelFolder, models_named
from graphormer_plugin.inference.molecules import read_rows
from graphormer_plugin.inference.part_files import PartFiles
from graphormer_plugin.inference.score_predictions import TableScores
from graphormer_plugin.inference.table_run import (
    BLOCK_ROWS,
    PredictedRows,
    RowBlock,
    TableRun,
    row_blocks,
)
from graphormer_plugin.workers import in_workers


def predict_table(arguments: argparse.Namespace, table: Table) -> None:
    """Predict the rows of a table, write them, and print their metrics if they have
    labels. A second process with this output waits."""
    names = [arguments.output, arguments.embeddings]
    outputs = [arguments.shard.path(Path(name)) for name in names if name]
    waiting = f"another process writes {outputs[0]}; waiting"
    with file_lock(outputs[0], lambda: print_warning(waiting), keep=False):
        write_predictions(arguments, table, outputs)


def write_predictions(
    arguments: argparse.Namespace, table: Table, outputs: Sequence[Path]
) -> None:
    """What is left to do of `predict_table` after a kill."""
    models = named_models(arguments)
    rdBase.DisableLog(RDKIT_WARNINGS)
    column = table.find_smiles(arguments.smiles_column)
    # Read the whole file first: an error in the last row must not show up after hours.
    count = table.count()
    if count == 0:
        raise ValueError(f"{table.path}: {table.no_rows}")
    first, end = arguments.shard.rows(count)
    size = max(BLOCK_ROWS, 4 * arguments.batch_size)
    rows = table.digest, first, end, size
    parts = PartFiles(outputs, run_key(arguments, models, column, *rows))
    if (summary := parts.finished()) is not None:
        print_line(f"{outputs[0]} is finished\n{summary}")
        parts.remove()
        return
    run = table_run(arguments, models, table, column)
    targets, logs = run.predictor.targets, run.predictor.logs
    scores = TableScores(targets, logs, table, models.missing_labels)
    for note in table.notes:
        print_warning(f"{table.path}: {note}")
    for folder in parts.others():
        print_warning(f"{folder} is left of a run with other options, models or input")
    failed, outside, started = 0, Counter(), time.monotonic()
    total, done = end - first, min(parts.count * size, end - first)
    blocks = row_blocks(table, first + done, end, size)
    new = predicted(run, blocks, total - done, arguments)
    try:
        with tqdm(total=total, unit="mol", disable=arguments.quiet) as bar:
            for part in itertools.chain(parts.read(), map(parts.write, new)):
                scores.add(part)
                failed, outside = failed + part.failed, outside + part.outside
                bar.update(len(part.cells))
        rate = (total - done) / (time.monotonic() - started)
        without = f", {failed:,} without prediction" if failed else ""
        counts = f"{total:,} rows{without}; {names_and_unit(targets)}"
        summary = f"{outputs[0]}: {counts}; {rate:,.0f} molecules/s"
        if text := scores.text(print_warning):
            summary += f"\n{text}"

        def _write(rows: Iterator[list[str]]) -> None:
            rows = itertools.chain([[*table.header, *run.names]], rows)
            numbers = {*itertools.compress(run.names, run.numbers)}
            write_table(outputs[0], rows, table, column, numbers, first, end)

        parts.join(total, run.width, _write, summary)
    except BaseException:
        if parts.count:
            kept = min(parts.count * size, total)
            print_error(f"the first {kept:,} rows are kept, the same command goes on")
        raise
    print_line(summary)
    for line in domain_warnings(outside, run.predictor.domains):
        print_warning(line)
    if total and failed == total:
        where = f"; the reasons are in column {run.names[-1]!r}"
        if not isinstance(table, SmilesTable):  # it has no other column
            where += ". --smiles-column names another column"
        print_warning(f"nothing in column {column!r} could be predicted{where}")
    parts.remove()


def predicted(
    run: TableRun, blocks: Iterator[RowBlock], rows: int, arguments: argparse.Namespace
) -> Iterator[PredictedRows]:
    """Yield the predictions for blocks of rows, in their order.

    On a CPU each worker predicts on one thread, so that no core waits for another. With a
    GPU the workers only read SMILES.
    """
    on_cpu, fork = run.predictor.device.type == "cpu", sys.platform == "linux"
    workers = num_workers(
        arguments.workers, rows, *([BLOCK_ROWS + 1] if on_cpu and fork else [])
    )
    start = functools.partial(start_worker, arguments.user_data_dir)
    if on_cpu or not workers:
        return in_workers(workers, run, ((block,) for block in blocks), start, fork)
    blocks, again = itertools.tee(blocks)
    calls = ((run.smiles(block),) for block in again)
    reader = functools.partial(read_rows, run.reader)
    read = in_workers(workers, reader, calls, start)
    return (run.predict(block, *molecules) for block, molecules in zip(blocks, read))


def start_worker(user_data_dir: str | None) -> None:
    """Use one thread, and import the modules of the user."""
    torch.set_num_threads(1)
    threadpool_limits(1)
    if user_data_dir is not None:
        import_user_data(home_path(user_data_dir))


def table_run(
    arguments: argparse.Namespace, models: ModelFolder, table: Table, column: str
) -> TableRun:
    """The models, on their device, with the options of the predictions."""
    device = usable_device(arguments.device)
    predictor = load(models, arguments.user_data_dir, arguments.head).to(device)
    layers = None
    if arguments.embeddings:
        own = predictor.member.own_layers(arguments.grpe_fingerprint)
        layers = arguments.layers or own
    if arguments.dtype == "bf16":
        predictor.bfloat16()
    extra = [name for name in predictor.extra_columns if name in table.places]
    read = whole_columns(table, extra) if extra else {}
    return TableRun(
        predictor,
        table,
        column,
        batch_size=arguments.batch_size,
        max_atoms=arguments.max_atoms,
        layers=layers,
        fingerprint=arguments.grpe_fingerprint,
        numbers_in={name: read[name].number for name in read},
    )


def named_models(arguments: argparse.Namespace) -> ModelFolder:
    """Models that the arguments name; ValueError if several are given a head or a file
    of vectors."""
    models = models_named(arguments.checkpoints)
    if len(models.checkpoints) > 1:
        if arguments.embeddings is not None:
            raise ValueError("--embeddings is for one checkpoint, not for an ensemble")
        if arguments.head not in (HEAD_BESIDE_CHECKPOINT, None):
            raise ValueError("--head FILE is for one checkpoint, not for an ensemble")
    return models


def run_key(arguments: argparse.Namespace, models: ModelFolder, *rows: Any) -> str:
    """Digest of all that the parts of a run depend on.

    Args:
        rows: column of SMILES, digest of the input, and which rows of it make which part.
    """
    names = (
        "head embeddings layers grpe_fingerprint max_atoms dtype user_data_dir".split()
    )
    options = [vars(arguments)[name] for name in names]
    files = []
    for path in models.checkpoints:
        beside = head_file(path, arguments.head), domain_file(path)
        files += [path, *(file for file in beside if file and file.exists())]
    digests = [file_sha256(file) for file in files]
    if arguments.user_data_dir is not None:
        digests.append(folder_hash(home_path(arguments.user_data_dir)))
    folder = {**dataclasses.asdict(models), "checkpoints": len(models.checkpoints)}
    content = json.dumps([rows, options, digests, folder])
    return hashlib.sha256(content.encode()).hexdigest()
