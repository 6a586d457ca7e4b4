"""``graphormer-train``: a model of a table of molecules, compared with references."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from rdkit import rdBase

from graphormer_plugin.cli import (
    RDKIT_WARNINGS,
    CommandParser,
    command,
    not_empty,
    say,
    warn,
)
from graphormer_plugin.data.options import add_flag
from graphormer_plugin.data.table_formats import stem
from graphormer_plugin.experiment.run import run_experiment
from graphormer_plugin.experiment.settings import (
    Settings,
    parse_ratios,
)


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = CommandParser(
        prog="graphormer-train",
        description="Train a model on a table of molecules, compare it with the mean and "
        "a random forest, and write everything to a folder. A run that was stopped goes "
        "on when the same command is typed again.",
    )
    add = result.add_argument
    add(
        "table",
        metavar="TABLE",
        type=not_empty,
        help=".csv, .tsv, .sdf (also with .gz) or .parquet",
    )
    add(
        "--out",
        metavar="FOLDER",
        type=not_empty,
        help="where to write (default: the table's name and -model)",
    )
    fields = dataclasses.fields(Settings)[2:]  # without table and folder
    groups = {one.metadata.get("group", "table"): None for one in fields}
    for name in groups:
        group = result.add_argument_group(name)
        for one in fields:
            if one.metadata.get("group", "table") == name:
                add_flag(group, one)
    add = result.add_argument
    add("--quiet", action="store_true", help="no progress bar")
    return result


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(level=logging.ERROR, format="%(message)s", force=True)
    rdBase.DisableLog(RDKIT_WARNINGS)
    run_experiment(
        settings_of(arguments),
        say,
        warn,
        progress=not arguments.quiet,
    )
    return 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The experiment that the arguments describe.

    Raises:
        DatasetError: A value is out of range, or two contradict each other.
    """
    values = dict(vars(arguments))
    for name in ("quiet", "debug"):
        del values[name]
    out = values.pop("out")
    values["folder"] = out or default_folder(values["table"])
    values["ratios"] = parse_ratios(values["ratios"]) if values["ratios"] else None
    return Settings(**values)


def default_folder(table: str) -> str:
    """Name of the table without its endings, in the current folder."""
    return stem(Path(table)) + "-model"


if __name__ == "__main__":
    sys.exit(main())
