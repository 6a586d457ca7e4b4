"""``graphormer-next``: choose the molecules of a table to measure next."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.cli import (
    RDKIT_WARNINGS,
    CommandParser,
    add_reading_options,
    check_name,
    command,
    not_empty,
    number,
    print_error,
    print_line,
    print_warning,
)
from graphormer_plugin.components import paused_collector
from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.tables.formats import open_table

MOST = 1000  # molecules of a batch


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = CommandParser(
        prog="graphormer-next",
        description="Choose the molecules of a table that are to be measured next, by what "
        "Gaussian processes predict of all of them together. The output has the rows of these "
        "molecules, then the columns of graphormer-predict and the reasons of the choice. The "
        "same command goes on after a kill.",
    )
    add = result.add_argument
    add(
        "model",
        metavar="MODEL",
        type=not_empty,
        help="folder of graphormer-train, or checkpoint with a head",
    )
    add(
        "input",
        metavar="CANDIDATES.csv",
        type=not_empty,
        help="table of molecules that can be made or bought",
    )
    add(
        "output",
        metavar="BATCH.csv",
        type=not_empty,
        help=".csv to write; must not exist",
    )
    add(
        "--size",
        type=number(int, 1),
        default=20,
        help=f"molecules to choose, at most {MOST:,} (default: 20)",
    )
    add(
        "--goal",
        choices=("highest", "lowest", "learn"),
        default="highest",
        help="the highest or lowest value in expectation, or the measurements from which the "
        "model learns most (default: highest)",
    )
    add("--target", help="target that decides (default: the first)")
    add(
        "--cost",
        default="",
        metavar="COLUMN",
        help="cost of each molecule, by which gains are divided",
    )
    add(
        "--batch-size",
        type=number(int, 1),
        default=128,
        help="molecules per batch of the network (default: 128)",
    )
    add("--device", help="cpu, cuda or cuda:1 (default: a GPU if there is one)")
    add("--workers", type=int, help="processes, as in graphormer-predict")
    add("--quiet", action="store_true", help="no progress bar")
    add_reading_options(result)
    return result


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    arguments = build_parser().parse_intermixed_args(argv)
    output = Path(arguments.output)
    check_name(output, (".csv",))
    table = open_table(Path(arguments.input))
    rows = table.count()
    if arguments.size > min(rows, MOST):
        most = (
            f"{table.path} has {counted(rows, 'row')}"
            if rows <= MOST
            else f"at most {MOST:,} are chosen together"
        )
        raise ValueError(f"--size {arguments.size}: {most}")
    with paused_collector():  # late: it imports torch
        from rdkit import rdBase

        from graphormer_plugin.inference.model_folder import models_named
        from graphormer_plugin.workbench.predictions import next_batch, run

    rdBase.DisableLog(RDKIT_WARNINGS)
    next_batch.choose_batch(
        models_named([arguments.model]),
        table,
        output,
        next_batch.Wish(arguments.size, arguments.goal, arguments.cost),
        next_batch.BatchOptions(
            smiles_column=arguments.smiles_column,
            max_atoms=arguments.max_atoms,
            user_data_dir=arguments.user_data_dir,
            target=arguments.target,
        ),
        run.RunSettings(
            arguments.batch_size,
            arguments.device,
            arguments.workers,
            not arguments.quiet,
        ),
        run.Lines(print_line, print_warning, print_error),
    )
