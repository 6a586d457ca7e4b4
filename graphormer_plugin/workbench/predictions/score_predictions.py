"""Metrics of predictions for a table that has the measured values, too."""

from collections.abc import Callable, Sequence

import numpy as np

from graphormer_plugin.criterions.metrics import METRICS
from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.errors import agreed, counted
from graphormer_plugin.data.schema import LOG, TargetSchema
from graphormer_plugin.data.tables.cells import ParsedColumn, shown
from graphormer_plugin.data.tables.roles import UNIT, find_beside
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.data.tables.units import molar_exponent, unit_factors
from graphormer_plugin.workbench.predictions.table_run import PredictedRows


class TableScores:
    """Metrics of each target that a table has labels of.

    Args:
        logs: numbers of the targets that models learn as logarithms.
        missing: words of cells that are missing labels, beside an empty cell and the like.
    """

    def __init__(
        self,
        targets: TargetSchema,
        logs: Sequence[int],
        table: Table,
        missing: Sequence[str],
    ) -> None:
        self.targets = targets
        self.logs = logs
        self.table = table
        self.columns = {
            target: ParsedColumn(name, missing)
            for target, name in enumerate(targets.names)
            if name in table.places and targets.level is Level.GRAPH
        }
        names = [column.name for column in self.columns.values()]
        is_molar = molar_exponent(targets.unit) is not None
        beside = find_beside(table, names if is_molar else [], UNIT, len(names) == 1)
        self._units = {name: ParsedColumn(column) for name, column in beside.items()}
        self._words = {
            target: {
                w: str(number)
                for number, w in enumerate(self.targets.classes_of(target))
            }
            for target in self.columns
        }
        self._values: list[np.ndarray] = []

    def add(self, part: PredictedRows) -> None:
        """Add rows of the output, which begin with the cells of the table."""
        if not self.columns:
            return
        self._values.append(part.values)
        for target, column in self.columns.items():
            place = self.table.places[column.name]
            words = self._words[target]
            for cells in part.cells:
                column.add(words.get(cells[place].strip(), cells[place]))
        for column in self._units.values():
            for cells in part.cells:
                column.add(cells[self.table.places[column.name]])

    def text(self, warn: Callable[[str], None]) -> str:
        """The metrics as text; empty without any label. Rows without a prediction do not
        count.
        """
        if not self.columns:
            return ""
        # A second of imports that a table without labels does not need.
        from graphormer_plugin.workbench.predictions import scores

        metrics = METRICS[self.targets.kind]
        lines = [["endpoint", scores.COUNT, *metrics]]
        for target, column in self.columns.items():
            measured = self._labels(target, column, warn)
            values = np.concatenate(self._values)
            if self.targets.kind != "multiclass":
                values = values[:, target]
            measured[np.isnan(values.reshape(len(values), -1)).any(1)] = np.nan
            if np.isnan(measured).all():
                continue
            pairs = {column.name: (values, measured)}
            if target in self.logs and (measured > 0).any():
                positive = np.where(measured > 0, measured, np.nan)
                log_pair = np.log10(values), np.log10(positive)
                pairs = {LOG + column.name: log_pair, **pairs}
            for title, pair in pairs.items():
                texts = [
                    scores.spread_text([scores.score(x, *pair)], x) for x in metrics
                ]
                lines.append([title, str((~np.isnan(pair[1])).sum()), *texts])
        if len(lines) == 1:
            return ""
        return f"\nLabels of {self.table.path}\n{scores.text_table(lines)}"

    def _labels(
        self, target: int, column: ParsedColumn, warn: Callable[[str], None]
    ) -> np.ndarray:
        """Labels of a target [n], classes by number; NaN where a cell is missing, or is
        not a label."""
        path, kind = self.table.path, self.targets.kind
        if note := column.read_commas(self.table.decimal_comma):
            warn(f"{path}: {note}")
        labels = np.array(column.values)
        texts = [*column.words]
        if kind != "regression":
            classes = range(self.targets.num_classes or 2)
            no_class = ~np.isnan(labels) & ~np.isin(labels, classes)
            texts += [f"{number:g}" for number in np.unique(labels[no_class])]
            labels[no_class] = np.nan
        if texts:
            text = f"cells such as {shown(texts[0])} are not labels and are ignored"
            warn(f"{path}: column {column.name!r}: {text} in the metrics")
        if (units := self._units.get(column.name)) is not None:
            labelled = ~np.isnan(labels)
            labels *= unit_factors(units, self.targets.unit)
            if count := int((labelled & np.isnan(labels)).sum()):
                warn(
                    f"{path}: {counted(count, 'label')} of {column.name!r} without a unit like "
                    f"{self.targets.unit} in column {units.name!r} "
                    f"{agreed(count, 'are')} ignored in the metrics"
                )
        return labels
