"""``graphormer-preprocess``: prepare a dataset's store and print what is in it."""

import argparse
import dataclasses
import logging
from collections.abc import Sequence

from graphormer_plugin.cli import CommandParser, command, print_line, print_warning
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.store import GraphStore, describe
from graphormer_plugin.data.store.sharded_store import open_stores
from graphormer_plugin.data.tables.options import (
    DatasetConfig,
    DatasetOptions,
    add_flag,
)


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command; the dataset has the options of the tasks."""
    result = CommandParser(
        prog="graphormer-preprocess",
        description="Prepare a dataset once; training opens the store.",
    )
    add = result.add_argument
    for option in dataclasses.fields(DatasetConfig):
        add_flag(result, option, option.name.removeprefix("prepare_"))
    add("--seed", type=int, default=1, help="seed of a drawn split (default: 1)")
    add(
        "--shard",
        default="1/1",
        metavar="i/n",
        help="table: prepare part i of n of the rows, from 1/n to n/n, as a store of its "
        "own; the parts are independent of each other",
    )
    add(
        "--verify",
        action="store_true",
        help="compute the checksums of an existing store",
    )
    add(
        "--rebuild",
        action="store_true",
        help="prepare again even if a valid store exists",
    )
    add("--quiet", action="store_true", help="no progress bar")
    return result


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    arguments = build_parser().parse_args(argv)
    # force: fairseq has set up its own handlers when it was imported.
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    options = DatasetOptions.from_config(
        arguments,
        seed=arguments.seed,
        shard=Shard.parse(arguments.shard),
        rebuild=arguments.rebuild,
        progress=not arguments.quiet,
    )
    store = open_stores(options)
    if arguments.verify:
        for part in store.stores:
            GraphStore.open(part.path, verify=True)
    print_line(describe(store))
    for text in store.warnings:
        print_warning(text)
    for part in store.stores:
        print_line(str(part.path))
