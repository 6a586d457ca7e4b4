"""From the arguments of ``graphormer-predict`` to a run of predictions."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from rdkit import rdBase

from graphormer_plugin.cli import RDKIT_WARNINGS, print_error, print_line, print_warning
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.model_folder import ModelFolder, models_named
from graphormer_plugin.workbench.predictions import run
from graphormer_plugin.workbench.predictions.shortlist import Wanted


def predict_table(arguments: argparse.Namespace, table: Table) -> None:
    """Predict the rows of a table, write them, and print their metrics if they have
    labels."""
    names = [arguments.output, arguments.embeddings]
    outputs = [arguments.shard.path(Path(name)) for name in names if name]
    run.predict_table(asked(arguments, table, outputs, arguments.shard))


def asked(
    arguments: argparse.Namespace,
    table: Table,
    outputs: Sequence[Path],
    shard: Shard,
) -> run.Asked:
    """The predictions that a command asks for, with arguments of `prediction_parser`."""
    models = named_models(arguments)
    rdBase.DisableLog(RDKIT_WARNINGS)
    settings = run.RunSettings(
        arguments.batch_size,
        arguments.device,
        arguments.workers,
        not arguments.quiet,
    )
    lines = run.Lines(print_line, print_warning, print_error)
    options = run_options(arguments)
    return run.Asked(models, table, outputs, shard, options, settings, lines)


def run_options(arguments: argparse.Namespace) -> run.RunOptions:
    """The options that predictions depend on, of those that a command has."""
    given = vars(arguments)
    names = {field.name for field in fields(run.RunOptions)}
    options = {name: given[name] for name in names & given.keys()}
    options["embeddings"] = bool(given.get("embeddings"))
    for flag in ("above", "below"):
        for words in given.get(flag, ()):
            share = arguments.false_share or 0.1
            options["wanted"] = Wanted(f"--{flag}", words, share)
    return run.RunOptions(**options)


def named_models(arguments: argparse.Namespace) -> ModelFolder:
    """Models that the arguments name; ValueError if several are given a head or a file
    of vectors."""
    models = models_named(arguments.models)
    if len(models.checkpoints) > 1:
        given = vars(arguments).get
        if given("embeddings") is not None:
            raise ValueError("--embeddings is for one checkpoint, not for an ensemble")
        if given("head") not in (HEAD_BESIDE_CHECKPOINT, None):
            raise ValueError("--head FILE is for one checkpoint, not for an ensemble")
    return models
