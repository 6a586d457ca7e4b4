"""Metrics of predictions for a table that has the measured values, too."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from graphormer_plugin.criterions.metrics import METRICS
from graphormer_plugin.data.schema import LOG, TargetSchema
from graphormer_plugin.data.tables.cells import Column, shown
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.experiment import scores
from graphormer_plugin.inference.prediction_columns import PREDICTED, class_labels
from graphormer_plugin.inference.table_run import TableRun

TOGETHER = 32  # targets of which all rows are in memory


def scored_text(
    run: TableRun,
    table: Table,
    rows: tuple[int, int],
    output: Path,
    missing: Sequence[str],
    warn: Callable[[str], None],
) -> str:
    """Metrics of each target that the input of a prediction has labels of, as text; empty
    without any label. Rows without a prediction do not count.

    Args:
        run: Has predicted.
        table: The input.
        rows: The row of the input that comes first in the output, and the row after its
            last.
        output: Table with the predictions.
        missing: Words of cells that are missing labels, beside an empty cell and the like.
        warn: Takes a line for each column with cells that are no labels.
    """
    targets = run.predictor.targets
    metrics = METRICS[targets.kind]
    numbers = [n for n, name in enumerate(targets.names) if name in table.places]
    lines: list[list[scores.Cell | str]] = [["endpoint", scores.COUNT, *metrics]]
    parts = (numbers[at : at + TOGETHER] for at in range(0, len(numbers), TOGETHER))
    pairs_of = (
        zip(
            part,
            _predicted(run, output, part),
            _labels(table, rows, targets, part, missing, warn),
        )
        for part in parts
    )
    for target, values, measured in itertools.chain.from_iterable(pairs_of):
        name = targets.names[target]
        measured[np.isnan(values).any(1)] = np.nan
        if np.isnan(measured).all():
            continue
        pairs = {name: (values if values.shape[1] > 1 else values[:, 0], measured)}
        if target in run.predictor.logs and (measured > 0).any():
            positive = np.where(measured > 0, measured, np.nan)
            log_pair = np.log10(values[:, 0]), np.log10(positive)
            pairs = {LOG + name: log_pair, **pairs}
        for title, pair in pairs.items():
            found = [scores.spread_text([scores.score(x, *pair)], x) for x in metrics]
            lines.append([title, str((~np.isnan(pair[1])).sum()), *found])
    if len(lines) == 1:
        return ""
    return f"\nLabels of {table.path}\n{scores.text_table(lines)}"


def _predicted(run: TableRun, output: Path, numbers: Sequence[int]) -> np.ndarray:
    """Predictions of some targets in a table [T, n, 1], or [1, n, K] of K classes."""
    targets = run.predictor.targets
    names = [targets.names[number] for number in numbers]
    if targets.kind == "multiclass":
        classes = class_labels(targets)
        names = [f"{names[0]}{PREDICTED.probability}{label}" for label in classes]
    columns = open_table(output).rows([run.name_of[name] for name in names])
    cells = (float(x or "nan") for *_, cells in columns for x in cells)
    values = np.fromiter(cells, np.float64).reshape(
        -1, len(numbers), len(names) // len(numbers)
    )
    return values.swapaxes(0, 1)


def _labels(
    table: Table,
    rows: tuple[int, int],
    targets: TargetSchema,
    numbers: Sequence[int],
    missing: Sequence[str],
    warn: Callable[[str], None],
) -> Iterator[np.ndarray]:
    """Labels of some targets, each [n], classes by number; NaN for cells that are missing,
    and for those that are no labels, of which a line warns."""
    columns = [Column(targets.names[target], missing) for target in numbers]
    words = [
        {word: str(at) for at, word in enumerate(targets.classes_of(target))}
        for target in numbers
    ]
    for *_, cells in table.rows_between([column.name for column in columns], *rows):
        for column, classes, cell in zip(columns, words, cells, strict=True):
            column.add(classes.get(cell.strip(), cell))
    for column in columns:
        if note := column.read_commas(table.decimal_comma):
            warn(f"{table.path}: {note}")
        labels, wrong = np.array(column.values), [*column.words]
        if targets.kind != "regression":
            known = range(targets.num_classes or 2)
            no_class = ~np.isnan(labels) & ~np.isin(labels, known)
            wrong += [f"{number:g}" for number in np.unique(labels[no_class])]
            labels[no_class] = np.nan
        if wrong:
            text = (
                f"cells such as {shown(wrong[0])} are no labels, metrics leave them out"
            )
            warn(f"{table.path}: column {column.name!r}: {text}")
        yield labels
