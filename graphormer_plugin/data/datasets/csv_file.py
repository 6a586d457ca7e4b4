"""Molecules and targets from any table with a column of SMILES, and from SDF files."""

import array
import fnmatch
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphormer_plugin.data.cells import (
    Column,
    is_index,
    is_number,
    matches,
    number_in,
    shown,
)
from graphormer_plugin.data.checks import listed
from graphormer_plugin.data.classes import class_order
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256, home_path
from graphormer_plugin.data.options import RECORDED, DatasetOptions
from graphormer_plugin.data.registry import DatasetSource, RegisteredDataset
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.splits import random_split, random_split_of_rows
from graphormer_plugin.data.table import NAMES, SPLIT, Table, listed_columns, readable
from graphormer_plugin.data.table_formats import open_table, stem

logger = logging.getLogger(__name__)

ALL = "all"  # in --target-columns: all columns of numbers
_SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "valid"),
    "test": "test",
}


def _csv_content(options: DatasetOptions) -> dict[str, Any]:
    path = home_path(options.name)
    rule = 2 if options.missing_labels else 1  # 1 compared numbers as text
    with readable(path):
        if options.shard.is_whole and not path.is_dir():
            return {"file": file_sha256(path), "rule": rule}
        table = open_table(path)
        digest = table.digest(*options.shard.rows(table.count()))
        return {"file": digest, "rule": rule}


def table_digest(options: DatasetOptions) -> str:
    """Hash of a table that is the same for all its shards: of a text its content, of
    Parquet its footers.

    Raises:
        DatasetError: It cannot be read.
    """
    path = home_path(options.name)
    with readable(path):
        return open_table(path).digest(0, 0)


def has_split_column(options: DatasetOptions) -> bool:
    """Whether the header gives the split, so that the seed does not matter.

    False for SDF, whose columns are known only when all records are read.
    """
    path = home_path(options.name)
    if path.name.lower().endswith((".sdf", ".sdf.gz")):
        return False
    return find_split(open_table(path), options) is not None


def find_split(table: Table, options: DatasetOptions) -> str | None:
    """The column of the split, or None: the column that ``--split column:NAME`` names; by
    default the column called split in any case, unless an option names it as something
    else.

    Raises:
        DatasetError: There is no such column, or more than one.
    """
    if options.split.startswith("column:"):
        return table.require(options.split.removeprefix("column:"))
    named = {options.smiles_column, options.weight_column}
    named |= {*options.target_columns, *options.extra_columns}
    names = [n for n in table.header if n.lower() == SPLIT and n not in named]
    if options.split or not names:
        return None
    if len(names) > 1:
        raise table.error(
            f"which column has the split, {' or '.join(names)}? Name it with --split "
            f"column:{names[0]}"
        )
    return names[0]


class Roles:
    """Which column of a table is what.

    Attributes:
        smiles: Column of the SMILES.
        split: Column of the split, or None.
        extras: Columns of numbers that models read beside the molecule.
        weight: Column of the weights in a list, which is empty without weights.
        free: Columns that can be targets without being named.
        candidates: Targets, and columns that may turn out to be targets when they are
            read: all columns for ``all``, and where ``explore`` leaves the choice open.

    Raises:
        DatasetError: There is no such column, or more than one; or a target is named
            twice.
    """

    def __init__(self, table: Table, options: DatasetOptions, explore: bool) -> None:
        self.table, self.asked = table, options.target_columns
        self.smiles = table.find_smiles(options.smiles_column)
        self.split = find_split(table, options)
        self.extras = [table.require(name) for name in options.extra_columns]
        self.weight = [table.require(n) for n in [options.weight_column] if n]
        taken = {self.smiles, self.split, *self.extras, *self.weight}
        self.free = [n for n in table.header if n not in taken and n.lower() != SPLIT]
        self.names_all = ALL in self.asked and ALL not in table.places
        self.open = explore and not self.asked
        if self.asked:
            unnamed = [name for name in self.free if name.lower() not in NAMES]
            self.candidates = self.targets(unnamed)
        else:
            self.candidates = self.free if explore else self.only()

    def targets(self, all_numbers: Sequence[str]) -> list[str]:
        """Columns that the names, patterns such as ``NR-*``, and ``all`` stand for.

        Args:
            all_numbers: Columns that ``all`` stands for.

        Raises:
            DatasetError: There is no such column, or it is named twice.
        """
        names: list[str] = []
        for asked in self.asked:
            if asked in self.table.places:
                names.append(asked)
                continue
            fits = fnmatch.filter(self.free, asked) or [asked]
            fits = all_numbers if asked == ALL else map(self.table.require, fits)
            names += [name for name in fits if name not in names]
        twice = [name for name, n in Counter([*names, *self.extras]).items() if n > 1]
        if twice:
            raise self.table.error(
                f"target column {twice[0]!r} is named twice, or in --extra-columns"
            )
        return names

    def only(self) -> list[str]:
        """The only column that can be the target if none is named.

        Raises:
            DatasetError: There is no single candidate, or it has the name of an
                identifier (id, name, index).
        """
        if len(self.free) != 1:
            raise self.table.error(
                "which columns are targets? Name them with --target-columns; there are "
                f"{listed_columns(self.free)}"
            )
        name = self.free[0]
        if name.lower() in NAMES or is_index(name):
            raise self.table.error(
                f"the only other column, {name!r}, is called as names or numbers of "
                "molecules are; if it is the target, name it with --target-columns"
            )
        return self.free


class Rows:
    """Cells of a table, read once.

    Args:
        table: An open table.
        roles: Which column is what.
        options: Of the table.
        part: First row, and the row after the last; None: all rows.
        others: Columns whose cells are kept as they are.

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
        columns = [Column(name) for name in (*roles.extras, *roles.weight)]
        columns += [Column(name, options.missing_labels) for name in roles.candidates]
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
        if not self.smiles:
            text = (
                table.no_rows
                if part == (0, None)
                else "there are no rows in this shard"
            )
            raise table.error(text)

    def error(self, row: int, column: str, text: object) -> DatasetError:
        """Error of a cell.

        Args:
            row: From 0, the first row that was read.
            column: Name of the column.
            text: Of the error.
        """
        where = f"row {self.first + row} (line {self.lines[row]}), column {column!r}"
        return self.table.error(f"{where}: {text}")

    def numbers(self, name: str, advice: str = "") -> np.ndarray:
        """Numbers of a column, float [rows].

        Args:
            name: Of the column.
            advice: Added to an error.

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

    def classes(
        self, name: str, kind: str, asked: Sequence[str]
    ) -> tuple[np.ndarray, list[str]]:
        """Labels of a target [rows], and the names of its classes if it has words.

        Raises:
            DatasetError: see `class_order`.
        """
        column = self.columns[name]
        # Somebody may mean a number with 1,5 or 1_000.
        plain = (word.replace(",", ".").replace("_", "") for word in column.words)
        numeric = column.has_numbers or any(map(is_number, plain))
        if kind == "regression" or numeric or not column.words:
            return self.numbers(name, column.advice()), []
        try:
            names = class_order(column.words, kind, asked)
        except ValueError as error:
            raise self.table.error(f"column {name!r}: {error}") from None
        values = np.array(column.values)
        for number, word in enumerate(names):
            values[column.words.get(word, [])] = number
        return values, names


@dataclass(frozen=True)
class Labels:
    """Rows of a table, read in one pass.

    Attributes:
        source: Molecules, targets, weights, extra columns and splits.
        warnings: Options that leave something out, or have no effect, a line each.
        others: Names of the columns that no option uses.
        cells: Their cells, a list per row; empty if they are not asked for.
    """

    source: DatasetSource
    warnings: list[str]
    others: list[str]
    cells: list[list[str]]


def csv_dataset(options: DatasetOptions) -> DatasetSource:
    """Molecules and targets from a table with a header: CSV, TSV, SDF or Parquet.

    Raises:
        DatasetError: see `read_labels`.
    """
    path = home_path(options.name)
    labels = read_labels(open_table(path), options)
    for text in labels.warnings:
        logger.warning("%s: %s", path, text)
    return labels.source


def read_labels(
    table: Table,
    options: DatasetOptions,
    explore: bool = False,
    find_kind: bool = False,
) -> Labels:
    """Read the rows of a table, or of its shard.

    A file is read once. It is read once more before, to hash it, where a store is looked
    for; SDF and .smi to find their columns; and for a shard, to count its rows and to
    find the columns of ``all``.

    Missing targets are empty cells, nan, na, n/a, null or none (in any case). Row numbers
    count data rows from 0, as in predictions; errors also give the line of the file, from
    1.

    Args:
        table: An open table.
        options: Which columns are read, and how.
        explore: Take the only column of numbers as target if none is named, and keep the
            cells of columns that no option uses.
        find_kind: Find the kind of the targets, in place of the kind of the options.

    Raises:
        DatasetError: The file cannot be read, or a header, row or cell is wrong; a
            line that names file, row and column.
    """
    whole = options.shard.is_whole
    if table.no_labels:
        raise table.error(table.no_labels)
    roles = Roles(table, options, explore)
    part = (0, None) if whole else options.shard.rows(table.count())
    others = [n for n in table.header if n not in (roles.smiles, roles.split)]
    rows = Rows(table, roles, options, part, others if explore else ())
    judged = rows.columns
    if roles.names_all and not whole:
        judged = _columns_of_whole(table, roles.candidates, options.missing_labels)
    names, counting = _choose_targets(roles, judged)
    columns = [rows.columns[name] for name in names]
    kind = _found_kind(table, columns, options) if find_kind else options.target_kind
    if kind == "multiclass" and len(names) != 1:
        raise table.error(f"a multiclass target is one column, got {names}")
    read = [rows.classes(name, kind, options.class_names) for name in names]
    target = np.stack([values for values, _ in read], axis=1)
    words = [classes for _, classes in read]
    if np.isnan(target).all():
        raise table.error(f"columns {names} have no label at all")
    if options.class_names and not any(words):
        raise table.error("--class-names is for targets that are words")
    schema = TargetSchema(names, kind=kind)
    if (wrong := schema.first_wrong(target)) is not None:
        row, column = wrong
        text = f"{target[wrong]:g} is no label, expected {schema.expected}"
        raise rows.error(row, names[column], text)
    extras = [rows.numbers(name) for name in roles.extras]
    source = DatasetSource(
        smiles=rows.smiles,
        targets=target,
        splits=_splits(rows, roles, options),
        target_names=names,
        unit=options.target_unit,
        kind=kind,
        class_names=words,
        weights=_weights(rows, roles.weight[0], whole) if roles.weight else None,
        graph_features=roles.extras,
        graph_values=np.array(extras).T.reshape(len(target), len(extras)),
        label=stem(table.path),
        first_row=rows.first,
    )
    warnings = [
        f"--target-columns all leaves out {listed_columns(counting)}, which only numbers "
        "the rows; name it to predict it"
    ]
    unmatched = [
        f"--missing-labels {word!r} fits no cell of {listed(names)}"
        for word in options.missing_labels
        if not any(matches(cell, (word,)) for c in columns for cell in c.missing)
    ]
    keep = [at for at, name in enumerate(others) if name not in names]
    return Labels(
        source,
        warnings[: bool(counting)] + unmatched * whole,
        [others[at] for at in keep],
        [[cells[at] for at in keep] for cells in rows.cells],
    )


def _columns_of_whole(
    table: Table, names: Sequence[str], patterns: Sequence[str]
) -> dict[str, Column]:
    """Columns of a table, read to their first word, so that few words are kept."""
    columns = [Column(name, patterns) for name in names]
    for _, _, cells in table.rows(names):
        for column, cell in zip(columns, cells, strict=True):
            if column.is_numeric:
                column.add(cell)
    return {column.name: column for column in columns}


def _choose_targets(
    roles: Roles, read: Mapping[str, Column]
) -> tuple[list[str], list[str]]:
    """Names of the targets, and of columns that ``all`` leaves out."""
    columns = [read[n] for n in roles.candidates if n.lower() not in NAMES]
    numeric = [column for column in columns if column.is_numeric]
    counting = [column.name for column in numeric if column.numbers_rows]
    left = [column for column in numeric if column.name not in counting]
    if roles.names_all:
        free = [column.name for column in left if column.name in roles.free]
        if not free:
            but = f" but {listed_columns(counting)}, which only numbers the rows"
            raise roles.table.error(f"no column of numbers{but if counting else ''}")
        return roles.targets(free), [n for n in counting if n not in roles.asked]
    if roles.open:
        names = [column.name for column in left if column.has_numbers]
        return (names if len(names) == 1 else roles.only()), []
    return roles.candidates, []


def _found_kind(
    table: Table, columns: Sequence[Column], options: DatasetOptions
) -> str:
    """Kind of targets: binary for 0 and 1 and for two words, multiclass for as many words
    as ``--class-names`` has, else regression.

    Raises:
        DatasetError: A target has more than two words, each twice on average; or some
            columns have other numbers than 0 and 1, and some do not.
    """
    asked = options.class_names
    numbers = any(column.has_numbers for column in columns)
    for column in columns:
        cells = sum(map(len, column.words.values()))
        several = 2 < len(column.words) <= cells / 2 and not column.has_numbers
        if several and not asked:
            raise table.error(
                f"column {column.name!r} has {len(column.words)} words "
                f"({listed(sorted(column.words))}); for classes give --target-kind "
                "multiclass, and name missing labels with --missing-labels"
            )
    if not all(column.is_numeric for column in columns):
        if numbers and not asked:
            return "regression"  # the words are mistakes
        most = len(asked) or max(len(column.words) for column in columns)
        return "binary" if most == 2 else "multiclass" if asked else "regression"
    truths: dict[bool, list[str]] = {True: [], False: []}
    for column in columns:
        values = {*np.unique(column.values).tolist()}
        truths[{x for x in values if x == x} <= {0.0, 1.0}].append(column.name)
    if all(truths.values()):
        raise table.error(
            f"only 0 and 1 in {listed(truths[True])}, other numbers in "
            f"{listed(truths[False])}: train them apart, or give --target-kind regression"
        )
    return "binary" if truths[True] else "regression"


def _weights(rows: Rows, name: str, whole: bool) -> np.ndarray:
    """Weights of the rows in the loss; DatasetError for a wrong cell, and for zeros."""
    weights = rows.numbers(name)
    if (wrong := np.flatnonzero(~(weights >= 0))).size:
        raise rows.error(wrong[0], name, "a weight is a number, 0 or more")
    if whole and not weights.any():
        raise rows.table.error(f"all weights in column {name!r} are 0")
    return weights


def _splits(
    rows: Rows, roles: Roles, options: DatasetOptions
) -> dict[str, np.ndarray] | None:
    """Rows by split; None for a split that needs the molecules."""
    whole, count = options.shard.is_whole, len(rows.smiles)
    if roles.split:
        for name in ("train", "valid"):
            if whole and name not in rows.splits:
                raise rows.table.error(
                    f"no rows in split {name} (column {roles.split!r}); mark them with "
                    f"the word {name}, or give --split random or scaffold"
                )
        splits = {**rows.splits, "train": rows.splits.get("train", [])}
        return {name: np.array(numbers, np.int64) for name, numbers in splits.items()}
    if options.split == "scaffold":
        return None
    if not whole:
        return random_split_of_rows(rows.first, count, options.seed)
    try:
        return random_split(count, options.seed)
    except DatasetError as error:
        raise rows.table.error(str(error)) from None


def molecules_of(options: DatasetOptions) -> tuple[list[str], list[list[str]]]:
    """Columns of SMILES and, if there are some, of names, and their cells by row.

    Raises:
        DatasetError: see `csv_dataset`.
    """
    table = open_table(home_path(options.name))
    columns = [table.find_smiles(options.smiles_column)]
    columns += table.find_name(columns[0])
    return columns, [cells for _, _, cells in table.rows(columns)]


CSV = RegisteredDataset(
    name="csv",
    function=csv_dataset,
    source="csv",
    options=RECORDED,
    content=_csv_content,
)
