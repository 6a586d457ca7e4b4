"""``graphormer-convert``: convert published checkpoints, strip training state, or print
a checkpoint's contents."""

import argparse
import logging
from collections.abc import Sequence

from graphormer_plugin.cli import CommandParser, command, not_empty
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.data.targets import Kind
from graphormer_plugin.finetune import PUBLISHED_CODES
from graphormer_plugin.inference import VECTOR_PARTS


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = CommandParser(
        prog="graphormer-convert",
        description="Convert published checkpoints, strip training state, or print a "
        "checkpoint's contents.",
    )
    modes = result.add_mutually_exclusive_group(required=True)
    modes.add_argument(
        "--from",
        dest="source",
        choices=sorted(PUBLISHED_CODES),
        help="convert IN, a checkpoint of this published code (huggingface: a folder with "
        "config.json)",
    )
    modes.add_argument(
        "--slim",
        action="store_true",
        help="leave out the training state, such as the optimiser's, which only "
        "resuming needs",
    )
    modes.add_argument("--info", action="store_true", help="print the contents of IN")
    add = result.add_argument
    add("input", metavar="IN", type=not_empty, help="checkpoint to read")
    add(
        "output",
        metavar="OUT",
        nargs="?",
        type=not_empty,
        help="checkpoint to write, a new file",
    )
    add(
        "--vectors",
        metavar="PART",
        nargs="+",
        choices=VECTOR_PARTS,
        help="with --slim: parts that a molecule's vector, for heads and --embeddings, is "
        "joined of: the virtual node (graph), the mean of the nodes, the outputs",
    )
    published = result.add_argument_group("with --from")
    add = published.add_argument
    add(
        "--config",
        metavar="FILE.json",
        help="options of the released code that the weights do not show, such as nhead",
    )
    add(
        "--target-names",
        metavar="A,B,...",
        help="names of the outputs (default: y, or y0, y1, ...)",
    )
    add(
        "--target-kind",
        choices=[*Kind],
        help="kind of the targets (default: regression); the outputs of multiclass are the "
        "classes of one target",
    )
    add("--target-unit", help="unit of a regression target, for messages")
    add(
        "--node-index",
        choices=("microsoft", "huggingface"),
        help="preprocessing that a Graphormer was trained with (default: microsoft; in "
        "folders of huggingface that only for the two published models)",
    )
    return result


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    arguments = build_parser().parse_args(argv)
    check_arguments(arguments)
    # Imports torch and fairseq.
    from graphormer_plugin.cli._conversion import run

    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    run(arguments)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise ValueError for an argument that the mode does not use."""
    if arguments.info and arguments.output:
        raise ValueError(f"--info writes no file: leave out {arguments.output}")
    if not (arguments.info or arguments.output):
        raise ValueError("no OUT: name the checkpoint to write")
    if arguments.vectors and not arguments.slim:
        raise ValueError("--vectors only works with --slim")
    for name in ("config", "target_names", "target_kind", "target_unit", "node_index"):
        if not arguments.source and getattr(arguments, name) is not None:
            raise ValueError(f"{flag_of(name)} only works with --from")
    graphormers = ("huggingface", "microsoft-graphormer")
    if arguments.node_index and arguments.source not in graphormers:
        raise ValueError(f"--node-index only works with --from {'|'.join(graphormers)}")
