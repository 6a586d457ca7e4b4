"""The cells of a table, read in one pass, as numbers and classes."""

import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.smiles import is_molecule
from graphormer_plugin.data.tables.cells import (
    Column,
    looks_numeric,
    number_in,
    point,
    read_dates,
    shown,
)
from graphormer_plugin.data.tables.class_names import class_order
from graphormer_plugin.data.tables.roles import Roles
from graphormer_plugin.data.tables.table import Table

_SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "valid"),
    "test": "test",
}


class Rows:
    """Cells of a table, read once.

    Args:
        part: First row, and the row after the last; None: all rows.
        others: Columns whose cells are kept as text, numbers with a decimal point.

    Raises:
        DatasetError: There are no rows, or a row has no SMILES or no split.
    """

    def __init__(
        self,
        table: Table,
        roles: Roles,
        options: DatasetOptions,
        part: tuple[int, int | None] = (0, None),
        others: Sequence[str] = (),
    ) -> None:
        self.table, self.first = table, part[0]
        self.smiles: list[str] = []
        self.cells: list[list[str]] = []
        self.splits: dict[str, list[int]] = {}
        self.lines = array.array("q")
        columns = [Column(name) for name in (*roles.extras, *roles.weight, *roles.time)]
        reading = options.missing_labels, options.class_names, options.censored
        columns += [Column(name, *reading) for name in roles.candidates]
        self.columns = {column.name: column for column in columns}
        split = [roles.split] if roles.split else []
        names = [roles.smiles, *(column.name for column in columns), *split]
        for row, line, cells in table.rows_between([*names, *others], *part):
            self.lines.append(line)
            self.smiles.append(cells[0].strip())
            if not self.smiles[-1] and not options.skip_invalid:
                text = f"{table.no_smiles}; --skip-invalid leaves such rows out"
                raise self.error(row - self.first, roles.smiles, text)
            for column, cell in zip(columns, cells[1:]):
                column.add(cell)
            if roles.split:
                word = cells[len(names) - 1]
                name = _SPLIT_NAMES.get(word.strip().lower(), "")
                self.splits.setdefault(name, []).append(row - self.first)
                if not name:
                    text = (
                        f"{shown(word)} is not a split, expected train|valid|test; "
                        "--split random and scaffold do not read it"
                    )
                    raise self.error(row - self.first, roles.split, text)
            if others:
                self.cells.append(cells[len(names) :])
        _read_commas(table, columns)
        for place, name in enumerate(others):
            if name in self.columns and self.columns[name].has_commas:
                for row in self.cells:
                    row[place] = point(row[place])
        if not self.smiles:
            text = (
                table.no_rows
                if part == (0, None)
                else "there are no rows in this shard"
            )
            raise table.error(text)

    def error(self, row: int, column: str, text: object) -> DatasetError:
        """Error of a cell in a row, counted from 0, the first row that was read."""
        table, number = self.table.where(self.first + row)
        where = f"row {number} (line {self.lines[row]}), column {column!r}"
        return table.error(f"{where}: {text}")

    def numbers(self, name: str, advice: str = "") -> np.ndarray:
        """Numbers of a column, float [rows]; ``advice`` is added to an error.

        Raises:
            DatasetError: A cell is not a number.
        """
        column = self.columns[name]
        for text, rows in column.words.items():
            try:
                number_in(text)
            except ValueError as error:
                raise self.error(rows[0], name, f"{error}{advice}") from None
        return np.array(column.values)

    def times(self, name: str, labelled: np.ndarray) -> np.ndarray:
        """Numbers of a column, or dates in seconds, float [rows]; NaN where a cell is
        neither, in a row that no training uses.

        Raises:
            DatasetError: A cell is neither, of a molecule with a label, bool [rows]; or
                see `read_dates`.
        """
        column = self.columns[name]
        numbers = np.array(column.values)
        words = _of_rows(column.words, lambda row: labelled[row])
        try:
            dates = read_dates([*words])
            if np.isnan(dates).any():  # perhaps of rows that are no molecules
                words = _of_rows(words, lambda row: is_molecule(self.smiles[row]))
                dates = read_dates([*words])
        except ValueError as error:
            raise self.table.error(f"column {name!r}: {error}") from None
        # A date is no number.
        values = np.full(len(numbers), np.nan) if words else numbers
        for rows, date in zip(words.values(), dates):
            values[rows] = date
        for row in np.flatnonzero(np.isnan(values) & labelled):
            if not is_molecule(self.smiles[row]):
                continue
            number = "" if np.isnan(numbers[row]) else f"{numbers[row]:.15g}"
            cell = next((word for word, rows in words.items() if row in rows), number)
            text = "expected a number, or a date such as 2024-03-31, all written in one way"
            raise self.error(row, name, f"{shown(cell)}, {text}")
        return values

    def classes(
        self, name: str, kind: str, asked: Sequence[str]
    ) -> tuple[np.ndarray, list[str]]:
        """Labels of a target [rows], and the names of its classes if it has words.

        Raises:
            DatasetError: see `class_order`.
        """
        column = self.columns[name]
        if kind == "regression" or column.has_numbers or not column.words:
            return self.numbers(name, column.advice()), []
        try:
            names = class_order(column.words, kind, asked)
        except ValueError as error:
            raise self.table.error(f"column {name!r}: {error}") from None
        values = np.array(column.values)
        for number, word in enumerate(names):
            values[column.words.get(word, [])] = number
        return values, names


def columns_of_whole(
    table: Table, names: Sequence[str], *reading: Any
) -> dict[str, Column]:
    """Columns of a table, of whose words only the first is kept; see `Column` for the
    further arguments."""
    columns = [Column(name, *reading) for name in names]
    for _, _, cells in table.rows(names):
        for column, cell in zip(columns, cells, strict=True):
            if looks_numeric(cell) or all(map(looks_numeric, column.words)):
                column.add(cell)
    _read_commas(table, columns)
    return {column.name: column for column in columns}


def _read_commas(table: Table, columns: Sequence[Column]) -> None:
    """Read decimal commas of columns, and note it in the table."""
    for column in columns:
        if note := column.read_commas(table.decimal_comma):
            table.notes[note] = None


def _of_rows(
    words: Mapping[str, Sequence[int]], is_used: Callable[[int], bool]
) -> dict[str, list[int]]:
    """The words of some rows, each with its rows."""
    used = {word: [row for row in rows if is_used(row)] for word, rows in words.items()}
    return {word: rows for word, rows in used.items() if rows}
