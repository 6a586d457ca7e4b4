"""``graphormer-compare``: are models of ``graphormer-train`` different?"""

from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.cli import (
    CommandParser,
    check_name,
    command,
    print_line,
    print_warning,
)
from graphormer_plugin.components import paused_collector
from graphormer_plugin.data.files import atomic_write


def build_parser() -> CommandParser:
    """Arguments of the command."""
    parser = CommandParser(
        prog="graphormer-compare",
        description="Compare finished folders of graphormer-train on their test folds, by "
        "Tukey's test for paired values; a single folder with the model beside.",
    )
    add = parser.add_argument
    add("folders", metavar="FOLDER", nargs="+", type=Path, help="of the same splits")
    add("output", metavar="OUT.png", type=Path, help="picture to write")
    add("--metric", default="", help="metric of results.csv (default: the main metric)")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    arguments = build_parser().parse_args(argv)
    check_name(arguments.output, (".png",))
    with paused_collector():  # late: they import torch
        from graphormer_plugin.workbench.experiment.comparison import (
            CONFIDENCE,
            differences,
            draw,
            fold_metrics,
        )
        from graphormer_plugin.workbench.predictions.scores import (
            spread_text,
            text_table,
        )

    metric, values = fold_metrics(arguments.folders, arguments.metric)
    pairs = differences(values)
    with atomic_write(arguments.output) as file:
        draw(metric, values, pairs, file)
    rows = [[name, spread_text(values[name].tolist(), metric)] for name in values]
    print_line(text_table([["", metric], *rows]) + "\n")
    for (a, b), mean, half, p in pairs:
        ends = f"{mean - half:+.3g} to {mean + half:+.3g}"
        interval = f"{100 * CONFIDENCE:g} % interval {ends}"
        print_line(f"{a} - {b}: {mean:+.3g} ({interval}), p {p:.2g}")
    if len(values) < 25:  # five times five
        advice = "25 say more: --folds 5 --replicates 5 of graphormer-train"
        print_warning(f"{len(values)} test folds, {advice}")
    print_line(str(arguments.output))
