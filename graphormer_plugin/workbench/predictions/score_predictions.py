"""Metrics of predictions for a table that has the measured values, too."""

from collections.abc import Callable, Sequence

import numpy as np

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.errors import DatasetError, agreed, counted
from graphormer_plugin.data.graphs.start_molecules import SEEN
from graphormer_plugin.data.tables.cells import ParsedColumn, shown
from graphormer_plugin.data.tables.marks import RELATION, UNIT, Marks
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.data.tables.units import molar_exponent, unit_factors
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.workbench.predictions.table_run import PredictedRows


class TableScores:
    """Metrics of each target that a table has labels of.

    Args:
        missing: words of cells that are missing labels, beside an empty cell and the like.
    """

    def __init__(
        self,
        predictor: Predictor,
        table: Table,
        missing: Sequence[str],
    ) -> None:
        self.targets = targets = predictor.targets
        self.tells_seen = predictor.seen is not None
        self.table = table
        self.columns = {
            target: ParsedColumn(name, missing)
            for target, name in enumerate(targets.names)
            if name in table.places and targets.level is Level.GRAPH
        }
        self._read = {column.name: column for column in self.columns.values()}
        self._marks = Marks(table, [*self._read])
        for name in self._marks.columns:
            self._read.setdefault(name, ParsedColumn(name))
        self._words = {
            one.name: {word: str(index) for index, word in enumerate(one.classes)}
            for one in targets.targets
        }
        self._values: list[np.ndarray] = []
        self._seen: list[bool] = []  # the start, of each row

    def add(self, part: PredictedRows) -> None:
        """Add rows of the output, which begin with the cells of the table."""
        if not self.columns:
            return
        self._values.append(part.values)
        self._seen += [self.tells_seen and row[-2] in SEEN for row in part.cells]
        for name, column in self._read.items():
            index = self.table.places[name]
            words = self._words.get(name, {})
            for cells in part.cells:
                column.add(words.get(cells[index].strip(), cells[index]))

    def text(self, warn: Callable[[str], None]) -> str:
        """The metrics as text; empty without any label. Rows without a prediction do not
        count.
        """
        if not self.columns:
            return ""
        # A second of imports that a table without labels does not need.
        from graphormer_plugin.workbench.predictions import scores

        targets = self.targets.targets
        kinds = dict.fromkeys(targets[target].kind for target in self.columns)
        metrics = dict.fromkeys(name for kind in kinds for name in kind.metrics)
        lines = [["endpoint", scores.COUNT, *metrics]]
        for target, column in self.columns.items():
            kind = targets[target].kind
            measured = self._labels(target, column, warn)
            values = np.concatenate(self._values)[:, self.targets.outputs[target]]
            if kind.has_one_output:
                values = values[:, 0]
            measured[np.isnan(values.reshape(len(values), -1)).any(1)] = np.nan
            if np.isnan(measured).all():
                continue
            rows = {column.name: measured}
            if any(self._seen):
                rows[f"{column.name}, new"] = np.where(self._seen, np.nan, measured)
            for title, labels in rows.items():
                found = {
                    x: [scores.score(x, values, labels, targets[target].cut_off)]
                    for x in kind.metrics
                }
                texts = [scores.spread_text(found.get(x, []), x) for x in metrics]
                lines.append([title, str((~np.isnan(labels)).sum()), *texts])
        if len(lines) == 1:
            return ""
        return f"\nLabels of {self.table.path}\n{scores.text_table(lines)}"

    def _labels(
        self, target: int, column: ParsedColumn, warn: Callable[[str], None]
    ) -> np.ndarray:
        """Labels of a target [n], classes by number; NaN where a cell is missing, or is
        not a label."""
        path = self.table.path
        schema = self.targets.targets[target]
        if note := column.read_commas(self.table.decimal_comma):
            warn(f"{path}: {note}")
        labels = np.array(column.values)
        texts = [*column.words]
        if not schema.kind.is_number:
            classes = range(len(schema.class_labels))
            no_class = ~np.isnan(labels) & ~np.isin(labels, classes)
            texts += [f"{number:g}" for number in np.unique(labels[no_class])]
            labels[no_class] = np.nan
        if texts:
            text = f"cells such as {shown(texts[0])} are not labels and are ignored"
            warn(f"{path}: column {column.name!r}: {text} in the metrics")
        if schema.kind.is_number:
            self._mark(schema.unit, column, labels, warn)
        return labels

    def _mark(
        self,
        unit: str,
        column: ParsedColumn,
        labels: np.ndarray,
        warn: Callable[[str], None],
    ) -> None:
        """Convert labels [n] into the unit of the models, and make those NaN that are bounds
        or have no such unit."""
        path = self.table.path
        name = column.name
        marks = dict[str, ParsedColumn]()
        is_molar = molar_exponent(unit) is not None
        for words in [RELATION, *[UNIT] * is_molar]:
            try:
                alone = len(self.columns) == 1
                found = self._marks.of(words, name, self._read, alone)
            except DatasetError as error:
                warn(f"{error}; it is not read")
                continue
            if found is not None:
                marks[words] = self._read[found[0]]
        if (relation := marks.get(RELATION)) is not None:
            bounds = (relation.signs() != 0) & ~np.isnan(labels)
            labels[bounds] = np.nan
            if count := int(bounds.sum()):
                warn(
                    f"{path}: {counted(count, 'label')} of {name!r} {agreed(count, 'have')} "
                    f"> or < in column {relation.name!r} and {agreed(count, 'are')} ignored "
                    "in the metrics"
                )
        if (column_of_units := marks.get(UNIT)) is not None:
            labelled = ~np.isnan(labels)
            labels *= unit_factors(column_of_units, unit)
            if count := int((labelled & np.isnan(labels)).sum()):
                warn(
                    f"{path}: {counted(count, 'label')} of {name!r} without a unit like "
                    f"{unit} in column {column_of_units.name!r} {agreed(count, 'are')} "
                    "ignored in the metrics"
                )
