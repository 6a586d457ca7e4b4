"""Draws the training curves of a log of fairseq-train: a panel for the loss, one for
each metric and one for the learning rate, training and validation, against updates.

    fairseq-train ... 2>&1 | tee train.log
    python examples/plot_training.py train.log curves.png

Reads fairseq's output on a terminal or in a file (`--log-file`), also with
`--log-format json`. `--tensorboard-logdir` writes the same numbers for TensorBoard.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

UPDATES = "num_updates"
# Speed and sizes, which are not drawn.
LEFT_OUT = re.compile(r"wps|ups|wpb|bsz|gnorm|clip|loss_scale|.*wall|best_.*|gb_free")

Curves = dict[str, dict[str, list[tuple[float, float]]]]


def read(text: str) -> Curves:
    """Curves of a log: name, then split (train, valid, ...) to (updates, value) per
    epoch. fairseq repeats lines in a `--log-file`, and a resumed run may repeat an
    epoch: the last value counts."""
    curves: dict = defaultdict(lambda: defaultdict(dict))
    for line in re.split(r"[\r\n]+", text):
        split, stats = line_numbers(line)
        if UPDATES not in stats:
            continue
        for name, value in stats.items():
            if name != UPDATES and not LEFT_OUT.fullmatch(name):
                curves[name][split][stats[UPDATES]] = value
    return {
        name: {split: sorted(points.items()) for split, points in splits.items()}
        for name, splits in curves.items()
    }


def line_numbers(line: str) -> tuple[str, dict[str, float]]:
    """Split and numbers of a line that closes an epoch; no numbers for other lines."""
    found = re.search(r"epoch \d+ \| (?:valid on '([^']*)' subset \| )?(.*)", line)
    if found:
        # A name may have spaces in it.
        pairs = (part.rsplit(maxsplit=1) for part in found[2].split(" | "))
        stats = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        return found[1] or "train", numbers(stats)
    found = re.search(r'\{"epoch": .*\}\s*$', line)
    if found:
        stats = json.loads(found[0])
        for key in stats:
            if key.endswith(f"_{UPDATES}"):
                split = key.removesuffix(f"_{UPDATES}")
                inside = {name.removeprefix(f"{split}_"): stats[name] for name in stats}
                del inside["epoch"]
                return split, numbers(inside)
    return "", {}


def numbers(stats: dict[str, object]) -> dict[str, float]:
    """The values that are numbers."""
    found = {}
    for name, value in stats.items():
        try:
            found[name] = float(str(value))
        except ValueError:
            continue
    return found


def plot(curves: Curves, path: str) -> None:
    """Write a picture in the format of the file's ending."""
    # The learning rate comes last; only training has it.
    names = sorted(curves, key=lambda name: (name == "lr", name != "loss", name))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * rows))
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for name, axis in zip(names, axes.flat):
        for split, points in sorted(curves[name].items()):
            mark = "o" if len(points) == 1 else None
            axis.plot(*zip(*points), label=split, marker=mark)
        axis.set(title=name, xlabel="updates")
        axis.grid(alpha=0.3)
        if name != "lr":
            axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("log", help="output of fairseq-train")
    parser.add_argument("output", help="picture, e.g. curves.png")
    arguments = parser.parse_args()
    try:
        text = Path(arguments.log).read_text(encoding="utf-8", errors="replace")
        curves = read(text)
        if not curves:
            raise ValueError(
                f"{arguments.log}: no finished epoch of fairseq-train in it"
            )
        plot(curves, arguments.output)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, splits in curves.items():
        last = ", ".join(
            f"{split} {points[-1][1]:g}" for split, points in splits.items()
        )
        print(f"{name}: {last}")
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
