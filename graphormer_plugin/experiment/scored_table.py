"""Metrics of predictions for a table that has the measured values, too."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from graphormer_plugin.data.schema import LOG, TargetSchema
from graphormer_plugin.data.tables.cells import Column, shown
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.experiment import scores
from graphormer_plugin.inference.prediction_columns import PREDICTED, class_labels
from graphormer_plugin.inference.table_run import TableRun


def scored_text(
    run: TableRun,
    table: Table,
    rows: tuple[int, int],
    output: Path,
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
        warn: Takes a line for each column with cells that are no labels.
    """
    targets, predictions = run.predictor.targets, open_table(output)
    metrics = scores.METRICS[targets.kind]
    lines: list[list[scores.Cell | str]] = [["endpoint", scores.COUNT, *metrics]]
    for target, name in enumerate(targets.names):
        if name not in table.places:
            continue
        labels = _labels(table, rows, targets, target, warn)
        names = [name]
        if targets.kind == "multiclass":
            classes = class_labels(targets)
            names = [f"{name}{PREDICTED.probability}{label}" for label in classes]
        columns = predictions.rows([run.name_of[one] for one in names])
        numbers = (float(x or "nan") for *_, cells in columns for x in cells)
        values = np.fromiter(numbers, np.float64).reshape(-1, len(names))
        labels[np.isnan(values).any(1)] = np.nan
        if np.isnan(labels).all():
            continue
        pairs = {name: (values if len(names) > 1 else values[:, 0], labels)}
        if target in run.predictor.logs and (labels > 0).any():
            positive = np.where(labels > 0, labels, np.nan)
            log_pair = np.log10(values[:, 0]), np.log10(positive)
            pairs = {LOG + name: log_pair, **pairs}
        for title, pair in pairs.items():
            found = [scores.spread_text([scores.score(x, *pair)], x) for x in metrics]
            lines.append([title, str((~np.isnan(pair[1])).sum()), *found])
    if len(lines) == 1:
        return ""
    return f"\nLabels of {table.path}\n{scores.text_table(lines)}"


def _labels(
    table: Table,
    rows: tuple[int, int],
    targets: TargetSchema,
    target: int,
    warn: Callable[[str], None],
) -> np.ndarray:
    """Labels of a target [n], classes by number; NaN for cells that are missing, and for
    those that are no labels, of which a line warns."""
    name = targets.names[target]
    numbers = {word: str(at) for at, word in enumerate(targets.classes_of(target))}
    column = Column(name)
    for _, _, (cell,) in table.rows_between([name], *rows):
        column.add(numbers.get(cell.strip(), cell))
    if note := column.read_commas(table.decimal_comma):
        warn(f"{table.path}: {note}")
    labels, wrong = np.array(column.values), [*column.words]
    if targets.kind != "regression":
        classes = range(targets.num_classes or 2)
        no_class = ~np.isnan(labels) & ~np.isin(labels, classes)
        wrong += [f"{number:g}" for number in np.unique(labels[no_class])]
        labels[no_class] = np.nan
    if wrong:
        text = f"cells such as {shown(wrong[0])} are no labels, metrics leave them out"
        warn(f"{table.path}: column {name!r}: {text}")
    return labels
