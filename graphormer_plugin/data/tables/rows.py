"""The cells of a table, read in one pass, as numbers and classes."""

import array
import bisect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.smiles import is_molecule
from graphormer_plugin.data.graphs.sources import Source
from graphormer_plugin.data.splits import FOLD
from graphormer_plugin.data.tables.cells import (
    ParsedColumn,
    looks_numeric,
    number_in,
    point,
    read_dates,
    shown,
)
from graphormer_plugin.data.tables.class_names import class_order
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.tables.roles import Roles
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.data.targets import Kind

_SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "valid"),
    "test": "test",
}


class Refusal(ValueError):
    """A cell that is refused, or doubted: its row, from 0 of those that are read, its column,
    and the reason."""


class TableRows:
    """The rows of tables that follow each other and have the same columns, read in one pass.
    Methods raise `Refusal`, whose place `error` names.

    Args:
        others: columns whose cells are kept as texts, with decimal points in numbers.
        explores: whether the column of the split may have numbers of folds, and need not name
            rows of valid.

    Attributes:
        others: their cells, by name.
        first: first row of the table that is read.
        starts: first row of each table.
        unsplit: number of rows with an empty cell in the column of the split.
        notes: lines about the way the tables are read, where it is unusual.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        roles: Roles,
        options: DatasetOptions,
        others: Sequence[str] = (),
        explores: bool = False,
    ) -> None:
        self.tables = tables
        self.roles = roles
        self.options = options
        self.starts = array.array("q")
        self.smiles: list[Source] = []
        self.others: dict[str, list[str]] = {name: [] for name in others}
        self.splits: dict[str, list[int]] = {}
        self.explores = explores
        self.unsplit = 0
        self.lines = array.array("q")
        reading = options.missing_labels, options.class_names, options.censored
        self.columns = {name: ParsedColumn(name) for name in roles.numbers}
        for name in roles.candidates:
            self.columns[name] = ParsedColumn(name, *reading)
        for name in (*roles.marks.columns, *roles.conditions):
            self.columns.setdefault(name, ParsedColumn(name))
        whole = options.shard.is_whole
        part = (0, None) if whole else options.shard.rows(tables[0].count())
        self.first, self.end = part

    def read(self) -> None:
        """Read the tables."""
        roles = self.roles
        columns = self.columns.values()
        names = [*self.columns, *filter(None, [roles.split])]
        skip_invalid = self.options.skip_invalid
        for table in self.tables:
            self.starts.append(len(self.smiles))
            smiles, *read = map(table.existing, (roles.smiles, *names, *self.others))
            rows = table.rows(read, smiles, self.first, self.end)
            for row, (_, line, source, cells) in enumerate(rows, len(self.smiles)):
                self.lines.append(line)
                self.smiles.append(source)
                if not source and not skip_invalid:
                    text = f"{table.no_smiles}; --skip-invalid leaves such rows out"
                    raise Refusal(row, roles.smiles, text)
                for column, cell in zip(columns, cells):
                    column.add(cell)
                if roles.split:
                    self._add_split(row, roles.split, cells[len(columns)])
                for kept, cell in zip(self.others.values(), cells[len(names) :]):
                    kept.append(cell)
            if len(self.smiles) == self.starts[-1]:
                shard = "there are no rows in this shard"
                raise table.error(table.no_rows if self.end is None else shard)
        self.notes = [
            f"{table.path}: {note}" if len(self.tables) > 1 else note
            for table in self.tables
            for note in table.notes
        ]
        for column in columns if skip_invalid else ():
            if column.words and column.has_numbers:
                column.words = _words_in(column.words, self._is_molecule)
        self.notes += _read_commas([*columns], self.has_decimal_commas)
        for column in columns:
            if column.has_commas and column.name in self.others:
                self.others[column.name] = [*map(point, self.others[column.name])]

    @property
    def has_decimal_commas(self) -> bool:
        """See `Table.decimal_comma`."""
        return all(table.decimal_comma for table in self.tables)

    def _is_molecule(self, row: int) -> bool:
        return is_molecule(str(self.smiles[row]))

    def _add_split(self, row: int, column: str, word: str) -> None:
        if not word.strip():
            self.unsplit += 1
            return
        name = _SPLIT_NAMES.get(word.strip().lower())
        if self.explores and re.fullmatch(r"\d+(\.0+)?", word.strip()):
            name = f"{FOLD}{float(word):.0f}"
        if name is None:
            text = (
                f"{shown(word)} is not a split, expected train|valid|test; "
                "--split random and scaffold do not read it"
            )
            raise Refusal(row, column, text)
        self.splits.setdefault(name, []).append(row)

    @property
    def parts(self) -> list[tuple[Table, np.ndarray]]:
        """The tables, each with the numbers of its rows."""
        numbers = np.split(np.arange(len(self.smiles)), self.starts[1:])
        return [*zip(self.tables, numbers)]

    def error(self, refusal: Refusal) -> DatasetError:
        """Error that names the cell."""
        row, column, reason = refusal.args
        place = bisect.bisect_right(self.starts, row) - 1
        number = self.first + row - self.starts[place]
        where = f"row {number} (line {self.lines[row]}), column {column!r}"
        return self.tables[place].error(f"{where}: {reason}")

    def line(self, line: str | Refusal) -> str:
        """A line that names the cell, and the file only if it is a further table."""
        if isinstance(line, str):
            return line
        return str(self.error(line)).removeprefix(f"{self.tables[0].path}: ")

    def numbers(self, name: str, advice: str = "") -> np.ndarray:
        """Numbers of a column, float [rows]. If a cell is not a number, ``advice`` ends the
        error."""
        column = self.columns[name]
        cell = column.thousands
        if cell and self.has_decimal_commas:
            whole = cell.replace(".", "")
            text = (
                f"{name!r}: is {cell} {whole}, or {cell.replace('.', ',')}? Write it so"
            )
            raise self.tables[0].error(f"column {text}")
        for text, rows in column.words.items():
            try:
                number_in(text)
            except ValueError as error:
                raise Refusal(rows[0], name, f"{error}{advice}") from None
        return np.array(column.values)

    def times(self, name: str, labelled: np.ndarray) -> np.ndarray:
        """Numbers of a column, or seconds of dates, float [rows]; NaN if a cell is neither, which
        is an error for a molecule that is ``labelled``, bool [rows]."""
        column = self.columns[name]
        numbers = np.array(column.values)
        words = _words_in(column.words, lambda row: labelled[row])
        try:
            dates = read_dates([*words])
            if np.isnan(dates).any():  # perhaps in rows without a molecule
                words = _words_in(words, self._is_molecule)
                dates = read_dates([*words])
        except ValueError as error:
            raise self.tables[0].error(f"column {name!r}: {error}") from None
        # A mixed column has what most cells are: all others are mistakes.
        if sum(map(len, words.values())) > np.count_nonzero(~np.isnan(numbers)):
            values = np.full(len(numbers), np.nan)
            for rows, date in zip(words.values(), dates):
                values[rows] = date
        else:
            values = numbers
        for row in np.flatnonzero(np.isnan(values) & labelled):
            if not self._is_molecule(row):
                continue
            number = "" if np.isnan(numbers[row]) else f"{numbers[row]:.15g}"
            cell = next((word for word, rows in words.items() if row in rows), number)
            text = "expected a number, or a date such as 2024-03-31, all written in one way"
            raise Refusal(row, name, f"{shown(cell)}, {text}")
        return values

    def classes(
        self, name: str, kind: Kind, class_names: Sequence[str]
    ) -> tuple[np.ndarray, list[str]]:
        """Labels of a target [rows], and the names of its classes if it has words; see
        `class_order`."""
        column = self.columns[name]
        if kind.is_number or column.has_numbers or not column.words:
            return self.numbers(name, column.advice()), []
        try:
            names = class_order(column.words, kind, class_names)
        except ValueError as error:
            raise self.tables[0].error(f"column {name!r}: {error}") from None
        values = np.array(column.values)
        for index, word in enumerate(names):
            values[column.words.get(word, [])] = index
        return values, names


def whole_columns(
    table: Table, names: Sequence[str], *reading: Any
) -> dict[str, ParsedColumn]:
    """Columns of a table. Each column keeps its first word only, so that memory is bounded;
    ``reading`` has the further arguments of `ParsedColumn`."""
    columns = [ParsedColumn(name, *reading) for name in names]
    for row in table.rows(names):
        for column, cell in zip(columns, row.cells, strict=True):
            if looks_numeric(cell) or all(map(looks_numeric, column.words)):
                column.add(cell)
    table.notes |= dict.fromkeys(_read_commas(columns, table.decimal_comma))
    return {column.name: column for column in columns}


def _read_commas(columns: Sequence[ParsedColumn], decimal: bool) -> list[str]:
    """Read decimal commas of columns; returns a line about each; see `ParsedColumn.read_commas`."""
    return [note for column in columns if (note := column.read_commas(decimal))]


def _words_in(
    words: Mapping[str, Sequence[int]], is_used: Callable[[int], bool]
) -> dict[str, list[int]]:
    """Words that occur in the selected rows, with those rows."""
    used = {word: [row for row in rows if is_used(row)] for word, rows in words.items()}
    return {word: rows for word, rows in used.items() if rows}
