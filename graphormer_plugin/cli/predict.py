"""``graphormer-predict``: predict the molecules of a CSV, TSV, SDF, .smi or Parquet."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.cli import (
    check_name,
    command,
    not_empty,
    number,
    prediction_parser,
)
from graphormer_plugin.components import paused_collector
from graphormer_plugin.data.graphs.conformers import LENGTH_UNITS
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.tables.formats import WRITABLE, open_table
from graphormer_plugin.data.tables.parquet import pyarrow_parquet
from graphormer_plugin.inference import HEAD_BESIDE_CHECKPOINT


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = prediction_parser(
        "graphormer-predict",
        "Predict the molecules of a table. The output has the rows and "
        "columns of the input, then the prediction, then the reason if there is none.",
        models={
            "metavar": "CKPT",
            "nargs": "+",
            "help": "checkpoint of this package, or a folder with models.json; several models "
            "form an ensemble, whose mean and standard deviation are written",
        },
        input={
            "metavar": "INPUT.csv",
            "help": "table of molecules: .csv, .tsv, .sdf, .smi or .xyz, also with .gz, "
            ".xlsx, .db of ASE or .parquet, or a folder of .parquet files",
        },
        output={
            "metavar": "OUTPUT.csv",
            "help": "file to write, .csv, .tsv, .sdf, .parquet or, of .xyz and .db, .xyz; "
            "must not exist",
        },
    )
    add = result.add_argument
    add(
        "--head",
        type=lambda name: None if name == "none" else name,
        default=HEAD_BESIDE_CHECKPOINT,
        metavar="FILE|none",
        help="head on the vectors of the checkpoint; none takes the checkpoint's own "
        "targets (default: head.npz beside the checkpoint, if there is one)",
    )
    add(
        "--length-unit",
        choices=tuple(LENGTH_UNITS),
        default="",
        help="unit of positions in the input (default: angstrom, and a line where this is "
        "doubtful)",
    )
    add(
        "--mean",
        action="store_true",
        help="predict the mean of a target that is learned as a logarithm or a logit, not its "
        "median",
    )
    add(
        "--cut-off",
        type=number(float, 0, 1),
        metavar="P",
        help="probability above which class 1 of two is predicted (default: that with the "
        "highest MCC on the validation molecules of a folder, else 0.5)",
    )
    add(
        "--members",
        action="store_true",
        help="columns with the prediction of each model of an ensemble",
    )
    add(
        "--shard",
        default="1/1",
        metavar="i/n",
        help="predict part i of n of the rows, from 1/n to n/n, into OUTPUT-i-of-n; the "
        "parts are independent of each other",
    )
    _add_shortlist(result)
    _add_vectors(result)
    return result


def _add_shortlist(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("shortlist").add_argument
    text = "columns p_value and selected: a list of molecules whose target is "
    texts = {
        "--above": f"{text}above a number, or of a class",
        "--below": f"{text}below a number",
    }
    for flag, help_text in texts.items():
        add(flag, action="append", default=[], metavar="TARGET=VALUE", help=help_text)
    add(
        "--false-share",
        type=number(float, 0),
        metavar="SHARE",
        help="largest expected share of the list that is not (default: 0.1); the model is one "
        "of graphormer-train --interval conformal",
    )


def _add_vectors(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("vectors").add_argument
    add(
        "--embeddings",
        metavar="OUT.npy",
        type=not_empty,
        help="also write a float32 vector per row; NaN for rows without prediction",
    )
    add(
        "--layers",
        type=number(int, 1),
        metavar="N",
        help="concatenate the vectors of the last N layers (default: 1, or the parts that "
        "a start names)",
    )
    add(
        "--grpe-fingerprint",
        dest="fingerprint",
        action="store_true",
        help="write the fingerprints of GRPE, vectors of the virtual node before the final "
        "normalisation, each divided by its L2 norm",
    )


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    # Options may stand between the checkpoints and the files.
    arguments = build_parser().parse_intermixed_args(argv)
    check_arguments(arguments)
    table = open_table(Path(arguments.input))
    with paused_collector():  # late: it imports torch
        from graphormer_plugin.cli._prediction import predict_table

    predict_table(arguments, table)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Check combinations of options, and the names of files, before anything is loaded."""
    shortlists = [*arguments.above, *arguments.below]
    share = arguments.false_share
    conditions = [
        (len(shortlists) > 1, "--above, --below: expected one threshold"),
        (
            share is not None and not (shortlists and 0 < share < 1),
            f"--false-share {share}: expected a number above 0, below 1, and --above or "
            "--below",
        ),
        (
            shortlists
            and (arguments.mean, arguments.shard, arguments.head)
            != (False, "1/1", HEAD_BESIDE_CHECKPOINT),
            "--above and --below are for all rows and the medians of a folder; drop --shard, "
            "--mean and --head",
        ),
    ]
    for is_wrong, text in conditions:
        if is_wrong:
            raise ValueError(text)
    arguments.shard = Shard.parse(arguments.shard)
    belongs = arguments.layers or arguments.fingerprint
    if arguments.embeddings is None and belongs:
        raise ValueError(
            "--layers and --grpe-fingerprint belong to --embeddings OUT.npy"
        )
    for name, suffixes in (("output", WRITABLE), ("embeddings", (".npy",))):
        value = getattr(arguments, name)
        if value is None:
            continue
        path = Path(value)
        check_name(path, suffixes)
        if path.suffix.lower() == ".parquet":
            pyarrow_parquet()
        arguments.shard.check_output(path)
