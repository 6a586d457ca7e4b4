"""``graphormer-explain``: draw what the prediction for a molecule depends on."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.cli import (
    CommandParser,
    add_reading_options,
    check_name,
    command,
    not_empty,
)
from graphormer_plugin.components import paused_collector

MAX_MOLECULES = 200


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = CommandParser(
        prog="graphormer-explain",
        description="Draw the contributions of atoms and fragments to a prediction, and "
        "the nearest training molecules with their labels.",
    )
    add = result.add_argument
    add(
        "checkpoint",
        metavar="CKPT",
        type=not_empty,
        help="checkpoint of this package, or a folder with models.json",
    )
    add(
        "molecules",
        metavar="SMILES",
        nargs="+",
        help="SMILES, or a .csv, .tsv, .sdf, .xlsx, .parquet, .smi or .txt file of them; "
        f"at most {MAX_MOLECULES} molecules for a page",
    )
    add(
        "output",
        metavar="OUT",
        help=".svg or .png, for one molecule, .html, a page for any number, or .csv, a table "
        "of the values of atoms",
    )
    add("--target", help="target to explain (default: the first)")
    add(
        "--sum",
        action="store_true",
        help="also write the prediction as a sum over blocks of features, draw the sum over "
        "atoms, and the training molecules that raise and lower it most; for heads",
    )
    add(
        "--myerson",
        choices=("atoms", "fragments"),
        help="also draw Myerson values of atoms or BRICS fragments, which add up to the "
        "prediction; exact up to 10,000 connected sets of them",
    )
    add(
        "--attention",
        action="store_true",
        help="also draw the attention that atoms receive, and the maps of each layer; for "
        "one network without head",
    )
    add(
        "--layer",
        type=int,
        help="with --attention: every head, or channel of chromatic attention, of this "
        "layer, counted from 1",
    )
    add(
        "--channels",
        metavar="N,N",
        help="with --layer: only these channels or heads, counted from 1",
    )
    add(
        "--atoms",
        metavar="N,N",
        help="with --attention: the molecule coloured by what these atoms attend to, for "
        "each channel or head of --layer, else for each layer; atoms are numbered from 1 "
        "in the order of the SMILES",
    )
    add_reading_options(result)
    return result


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    arguments = build_parser().parse_intermixed_args(argv)
    check_name(Path(arguments.output), (".svg", ".png", ".html", ".csv"))
    with paused_collector():  # late: it imports torch
        from graphormer_plugin.cli._explanation import explain_molecules

    explain_molecules(arguments, MAX_MOLECULES)
