"""``graphormer-next``: choose the molecules of a table to measure next."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.cli import check_name, command, number, prediction_parser
from graphormer_plugin.components import paused_collector
from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.tables.formats import open_table

MOST = 1000  # molecules of a batch


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = prediction_parser(
        "graphormer-next",
        "Choose the molecules of a table that are to be measured next, by what "
        "Gaussian processes predict of all of them together. The output has the rows of these "
        "molecules, then the columns of graphormer-predict and the reasons of the choice.",
        models={
            "metavar": "MODEL",
            "nargs": 1,
            "help": "folder of graphormer-train, or checkpoint with a head",
        },
        input={
            "metavar": "CANDIDATES.csv",
            "help": "table of molecules that can be made or bought",
        },
        output={"metavar": "BATCH.csv", "help": ".csv to write; must not exist"},
    )
    add = result.add_argument
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
        from graphormer_plugin.cli._prediction import asked
        from graphormer_plugin.workbench.predictions import next_batch

    next_batch.choose_batch(
        asked(arguments, table, [output], Shard()),
        next_batch.Wish(arguments.size, arguments.goal, arguments.cost),
    )
