"""From the arguments of ``graphormer-predict`` to a run of predictions."""

import argparse
from pathlib import Path

from rdkit import rdBase

from graphormer_plugin.cli import RDKIT_WARNINGS, print_error, print_line, print_warning
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT
from graphormer_plugin.inference.model_folder import ModelFolder, models_named
from graphormer_plugin.workbench.predictions import run
from graphormer_plugin.workbench.predictions.shortlist import Wanted


def predict_table(arguments: argparse.Namespace, table: Table) -> None:
    """Predict the rows of a table, write them, and print their metrics if they have
    labels."""
    rdBase.DisableLog(RDKIT_WARNINGS)
    names = [arguments.output, arguments.embeddings]
    run.predict_table(
        named_models(arguments),
        table,
        [arguments.shard.path(Path(name)) for name in names if name],
        arguments.shard,
        run_options(arguments),
        run.RunSettings(
            batch_size=arguments.batch_size,
            device=arguments.device,
            workers=arguments.workers,
            progress=not arguments.quiet,
        ),
        run.Lines(print_line, print_warning, print_error),
    )


def run_options(arguments: argparse.Namespace) -> run.RunOptions:
    """The options that predictions depend on."""
    wanted = None
    for flag in ("above", "below"):
        for words in getattr(arguments, flag):
            wanted = Wanted(f"--{flag}", words, arguments.false_share or 0.1)
    return run.RunOptions(
        smiles_column=arguments.smiles_column,
        head=arguments.head,
        embeddings=arguments.embeddings is not None,
        layers=arguments.layers,
        fingerprint=arguments.grpe_fingerprint,
        max_atoms=arguments.max_atoms,
        dtype=arguments.dtype,
        user_data_dir=arguments.user_data_dir,
        length_unit=arguments.length_unit,
        mean=arguments.mean,
        cut_off=arguments.cut_off,
        wanted=wanted,
        members=arguments.members,
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
