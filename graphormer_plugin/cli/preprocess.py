"""``graphormer-preprocess``: prepares a dataset's store and says what is in it."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Optional

from graphormer_plugin.cli import command
from graphormer_plugin.data.registry import DatasetOptions, get_store
from graphormer_plugin.data.schema import TARGET_KINDS
from graphormer_plugin.data.store import GraphStore, describe


def parser() -> argparse.ArgumentParser:
    """Arguments; names are those of the tasks where both have one."""
    result = argparse.ArgumentParser(
        prog="graphormer-preprocess",
        description="Prepare a dataset once; training opens what is stored here.",
    )
    add = result.add_argument
    add(
        "--dataset-name",
        required=True,
        help="registered name (nci, ...), or the path of a .csv or .csv.gz file",
    )
    add("--dataset-source", default="", help="csv, or empty: found from the name")
    add(
        "--data-root",
        help="folder for stores; default $GRAPHORMER_DATA_ROOT or "
        "~/.cache/graphormer_plugin",
    )
    add("--user-data-dir", help="folder with modules that register datasets")
    add("--smiles-column", default="", help="default: the column called smiles")
    add(
        "--target-columns",
        default="",
        metavar="A,B,...",
        help="default: the only column that is left",
    )
    add("--target-kind", default="regression", choices=TARGET_KINDS)
    add("--target-unit", default="", help="of a regression target, for messages")
    add(
        "--split",
        default="",
        metavar="random|scaffold|column:NAME",
        help="default: the dataset's own; a CSV's column split, else random",
    )
    add("--seed", type=int, default=1, help="of the random split")
    add(
        "--skip-invalid",
        action="store_true",
        help="leave out molecules that cannot be parsed instead of stopping",
    )
    add(
        "--workers",
        type=int,
        help="processes; default: all cores this process may use",
    )
    add(
        "--verify",
        action="store_true",
        help="compute the checksums of a store that is there already",
    )
    add("--rebuild", action="store_true", help="prepare again in any case")
    add("--quiet", action="store_true", help="no progress bar")
    add("--debug", action="store_true", help="show the traceback of an error")
    return result


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = parser().parse_args(argv)
    # force: fairseq has set up its own handlers when it was imported.
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    options = DatasetOptions(
        name=arguments.dataset_name,
        source=arguments.dataset_source,
        data_root=arguments.data_root,
        split=arguments.split,
        seed=arguments.seed,
        smiles_column=arguments.smiles_column,
        target_columns=arguments.target_columns,
        target_kind=arguments.target_kind,
        target_unit=arguments.target_unit,
        skip_invalid=arguments.skip_invalid,
        workers=arguments.workers,
        user_data_dir=arguments.user_data_dir,
        rebuild=arguments.rebuild,
        progress=not arguments.quiet,
    )
    store = get_store(options)
    if arguments.verify:
        store = GraphStore.open(store.path, verify=True)
    print(describe(store))
    print(store.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
