"""``graphormer-preprocess``: prepare a dataset's store and print what is in it."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence
from typing import Any, Optional

from graphormer_plugin.cli import command
from graphormer_plugin.data.build import get_store
from graphormer_plugin.data.options import DatasetConfig, DatasetOptions
from graphormer_plugin.data.store import GraphStore, describe


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command; options of the dataset are those of the tasks."""
    result = argparse.ArgumentParser(
        prog="graphormer-preprocess",
        description="Prepare a dataset once; training opens the store.",
    )
    add = result.add_argument
    for option in dataclasses.fields(DatasetConfig):
        name = option.name.removeprefix("prepare_")
        add(
            "--" + name.replace("_", "-"),
            dest=option.name,
            help=option.metadata["help"],
            **kind_of_argument(option),
        )
    add("--seed", type=int, default=1, help="seed of the random split (default: 1)")
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
    add("--debug", action="store_true", help="show the traceback of an error")
    return result


def kind_of_argument(option: dataclasses.Field) -> dict[str, Any]:
    """Arguments of argparse for a field of `DatasetConfig`."""
    if option.type is bool:
        return {"action": "store_true"}
    return {
        "type": int if option.type in (int, Optional[int]) else str,
        "default": option.default,
        "required": option.name == "dataset_name",
    }


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = build_parser().parse_args(argv)
    # force: fairseq has set up its own handlers when it was imported.
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    options = DatasetOptions.from_config(
        arguments,
        seed=arguments.seed,
        rebuild=arguments.rebuild,
        progress=not arguments.quiet,
    )
    store = get_store(options)
    if arguments.verify:
        store = GraphStore.open(store.path, verify=True)
    print(describe(store))
    for text in store.warnings:
        print(f"warning: {text}", file=sys.stderr)
    print(store.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
