"""``graphormer-train``: a model of a table of molecules, compared with baselines."""

import argparse
import dataclasses
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from rdkit import rdBase

from graphormer_plugin.cli import (
    RDKIT_WARNINGS,
    CommandParser,
    command,
    not_empty,
    print_line,
    print_warning,
)
from graphormer_plugin.components import paused_collector
from graphormer_plugin.data import files
from graphormer_plugin.data.tables.formats import open_table, stem
from graphormer_plugin.data.tables.options import add_flag
from graphormer_plugin.workbench.experiment.settings import (
    TABLES,
    Settings,
    parse_ratios,
)


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command: the fields of `Settings`, and how to run it."""
    parser = CommandParser(
        prog="graphormer-train",
        description="Train a model on a table of molecules, compare it with the mean and "
        "boosted trees, and write everything to a folder. A run that was stopped goes "
        "on when the same command is typed again.",
    )
    formats = ".csv, .tsv, .sdf (also with .gz), .xlsx or .parquet"
    parser.add_argument("table", metavar="TABLE", type=not_empty, help=formats)
    place = "where to write (default: the table's name and -model)"
    parser.add_argument("--out", metavar="FOLDER", type=not_empty, help=place)
    groups = {}
    flags = [
        flag
        for flag in dataclasses.fields(Settings)[2:]
        if flag.metadata.get("flag", True)
    ]
    for flag in flags:  # without table and folder
        name = flag.metadata.get("group", "table")
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        add_flag(groups[name], flag)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(level=logging.ERROR, format="%(message)s", force=True)
    logging.getLogger(files.__name__).setLevel(logging.WARNING)  # no locks
    rdBase.DisableLog(RDKIT_WARNINGS)
    settings = parsed_settings(arguments)
    open_table(settings.tables["train"])  # or an error, before torch is imported
    with paused_collector():
        from graphormer_plugin.workbench.experiment.run import run_experiment

    run_experiment(settings, print_line, print_warning, progress=not arguments.quiet)


def parsed_settings(arguments: argparse.Namespace) -> Settings:
    """The experiment that the arguments describe."""
    names = {field.name for field in dataclasses.fields(Settings)} - {"folder"}
    values = {name: x for name, x in vars(arguments).items() if name in names}
    folder = arguments.out or stem(Path(arguments.table)) + "-model"
    # Lines that are shown to others do not tell where on this machine they were written.
    folder = relative(folder)
    for name in TABLES:
        values[name] = relative(values[name])
    values["ratios"] = parse_ratios(values["ratios"]) if values["ratios"] else None
    return Settings(folder=folder, **values)


def relative(path: str) -> str:
    """An absolute path from the current folder; another stays."""
    return os.path.relpath(path) if os.path.isabs(path) else path
