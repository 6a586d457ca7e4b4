"""Learning curves of the recipes: a table of every epoch, and its picture.

`record.py` adds the curve of each training to `curves.tsv`, beside the table of results;
`summarise.py --curves` draws them.
"""

from collections.abc import Iterable
from pathlib import Path

import plot_training
import tsv
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

NAME = "curves.tsv"
COLUMNS = "recipe variant seed checkpoint updates metric split value".split()

Curve = dict[str, list[tuple[float, float]]]  # split: (updates, value) per epoch


def log_curves(log: Path, metric: str) -> Curve:
    """The curves of a training's log; ValueError if it has no epoch or no such metric."""
    curves = plot_training.read(log.read_text("utf-8", errors="replace"))
    if metric not in curves:
        raise ValueError(f"{log}: no {metric} of a finished epoch")
    return curves[metric]


def append(path: Path, row: dict, curve: Curve) -> None:
    """Add the curve of a run in the results, unless the table has it already."""
    run = [str(row[name]) for name in COLUMNS[:4]]
    lines = [
        [*run, f"{updates:.0f}", row["metric"], split, f"{value:g}"]
        for split, points in curve.items()
        for updates, value in points
    ]
    known = {tuple(line.values()) for line in tsv.read(path)} if path.exists() else ()
    tsv.append(path, COLUMNS, [line for line in lines if tuple(line) not in known])


def table_curves(path: Path, what: str, metric: str) -> dict[tuple[str, ...], Curve]:
    """The longest training of each recipe and seed, without variants.

    Args:
        what: A recipe (`zinc/grpe_small`), or a benchmark (`zinc`) for all of its recipes.
    """
    runs: dict[tuple[str, ...], dict[str, Curve]] = {}
    for row in tsv.read(path):
        named = what in (row["recipe"], row["recipe"].split("/")[0])
        if named and not row["variant"] and row["metric"] == metric:
            key = (row["recipe"], row["seed"])
            curve = runs.setdefault(key, {}).setdefault(row["checkpoint"], {})
            points = curve.setdefault(row["split"], [])
            points.append((float(row["updates"]), float(row["value"])))
    if not runs:
        raise ValueError(f"{what} is not a log, and {path} has no {metric} of it")

    def updates(curve: Curve) -> float:
        return max(points[-1][0] for points in curve.values())

    return {key: max(curves.values(), key=updates) for key, curves in runs.items()}


def figure(
    curves: Iterable[tuple[str, Curve]],
    axis: str,
    finals: dict[str, float],
    scale: float = 1,
) -> Figure:
    """Training (dotted) and other curves against epochs on a logarithmic axis, a color
    for each recipe, and a dashed line for the value of its paper.

    Args:
        curves: Recipe and curve of each training.
        axis: Label of the values.
        finals: Values of the papers by recipe.
        scale: Factor of the values of the curves, for the unit of the papers.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    colors: dict[str, str] = {}
    for recipe, curve in curves:
        first = recipe not in colors
        color = colors.setdefault(recipe, f"C{len(colors) % 10}")
        for split, points in sorted(curve.items()):
            updates, values = zip(*points)
            axes.plot(
                # The first point of every curve is the end of the first epoch.
                [update / updates[0] for update in updates],
                [scale * value for value in values],
                ":" if split == "train" else "-",
                color=color,
                linewidth=1,
                label=recipe if first and split != "train" else None,
            )
        if first and recipe in finals:
            axes.axhline(finals[recipe], color=color, linestyle="--", linewidth=0.8)
    axes.set(xscale="log", xlabel="epoch", ylabel=axis)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter("{x:g}")
    title = "dashed: the paper, test" if colors.keys() & finals.keys() else None
    figure.legend(title=title, loc="outside right upper")
    return figure
