"""Molecules and targets from any table with a column of SMILES, and from SDF files."""

import array
import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.cells import (
    is_missing,
    is_number,
    matches,
    number_in,
    shown,
)
from graphormer_plugin.data.checks import listed
from graphormer_plugin.data.classes import class_order
from graphormer_plugin.data.errors import DatasetError, counted
from graphormer_plugin.data.files import file_sha256, home_path
from graphormer_plugin.data.options import RECORDED, DatasetOptions
from graphormer_plugin.data.registry import DatasetSource, RegisteredDataset
from graphormer_plugin.data.splits import random_split, random_split_of_rows
from graphormer_plugin.data.table import Table, readable
from graphormer_plugin.data.table_formats import open_labelled, open_table, stem

logger = logging.getLogger(__name__)

_SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
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
    """Hash of a table that is the same for all its shards; that of a Parquet file is one
    of its footer.

    Raises:
        DatasetError: It cannot be read.
    """
    path = home_path(options.name)
    with readable(path):
        return open_table(path).digest(0, 0)


def column_of_split(table: Table, options: DatasetOptions) -> str | None:
    """Column that has the split, or None. One called split is not where an option names
    it as something else.

    Raises:
        DatasetError: There is no such column, or more than one.
    """
    named = (options.smiles_column, options.weight_column)
    more = (*options.target_columns, *options.extra_columns)
    return table.find_split(options.split, (*named, *more))


def has_split_column(options: DatasetOptions) -> bool:
    """Whether the header gives the split, so that the seed does not matter.

    False for SDF, whose columns are known only when all records are read.
    """
    path = home_path(options.name)
    if path.name.lower().endswith((".sdf", ".sdf.gz")):
        return False
    return column_of_split(open_table(path), options) is not None


@dataclass(frozen=True)
class Labels:
    """Rows of a table, read in one pass.

    Attributes:
        source: Molecules, targets, weights, extra columns and splits.
        warnings: Options that leave something out, or have no effect, one line each.
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
    labels = read_labels(open_labelled(path), options)
    for text in labels.warnings:
        logger.warning("%s: %s", path, text)
    return labels.source


def read_labels(
    table: Table, options: DatasetOptions, keep_others: bool = False
) -> Labels:
    """Read the rows of a table once.

    Only the columns of ``all`` and the rows of a shard are counted before. Missing
    targets are empty cells, nan, na, n/a, null or none (in any case). Row numbers count
    data rows from 0, as in predictions; errors also give the line of the file, from 1.
    With a shard, only its rows are read.

    Args:
        table: An open table.
        options: Which columns are read, and how.
        keep_others: Keep the cells of columns that no option uses.

    Raises:
        DatasetError: The file cannot be read, or a header, row or cell is wrong; one
            line that names file, row and column.
    """
    path = table.path
    smiles_column = table.find_smiles(options.smiles_column)
    split_column = column_of_split(table, options)
    weight_column = None
    if options.weight_column:
        weight_column = table.require(options.weight_column)
    extras = [table.require(name) for name in options.extra_columns]
    special = [smiles_column, split_column, weight_column, *extras]
    missing = options.missing_labels
    targets = table.select(options.target_columns, special, missing)
    if not options.target_columns:
        targets = table.remaining(special)
    if len(set(targets)) != len(targets):
        raise DatasetError(f"{path}: a target column is named twice: {list(targets)}")
    columns = [_Column(name, options.target_kind) for name in targets]
    if both := {*targets} & {*extras}:
        raise DatasetError(f"{path}: {min(both)!r} is a target and in --extra-columns")
    used = {smiles_column, split_column, *targets}
    others = [name for name in table.header if name not in used]
    marks = [name for name in (split_column, weight_column) if name]
    read = [smiles_column, *targets, *extras, *marks]
    width = len(read)
    smiles: list[str] = []
    kept: list[list[str]] = []
    values, weights, numbers = (array.array("d") for _ in range(3))
    rows_of: dict[str, list[int]] = {}
    unmatched = [*missing] if options.shard.is_whole else []
    problem: _WrongLabels | None = None
    first, end = 0, None
    if not options.shard.is_whole:
        first, end = options.shard.rows(table.count())
    read += others if keep_others else []
    for row, line, cells in table.rows_between(read, first, end):

        def fail(name: str, text: object) -> DatasetError:
            where = f"{path}: row {row} (line {line}), column {name!r}"  # noqa: B023
            return DatasetError(f"{where}: {text}")

        if problem is not None:  # only the other wrong cells of its column count
            problem.add(cells[problem.place])
            continue
        if not cells[0].strip() and not options.skip_invalid:
            text = f"{table.no_smiles}; --skip-invalid leaves such rows out"
            raise fail(smiles_column, text)
        smiles.append(cells[0].strip())
        for place, column in enumerate(columns, 1):
            cell = cells[place]
            unmatched = [word for word in unmatched if not matches(cell, (word,))]
            try:
                gone = missing and is_missing(cell, missing)
                values.append(math.nan if gone else column.value(cell))
            except ValueError as error:
                wrong = fail(column.name, error)
                if is_number(cell):
                    raise wrong from None
                problem = _WrongLabels(wrong, place, missing)
                problem.add(cell)
                break
        if problem is not None:
            continue
        for name, cell in zip(extras, cells[1 + len(targets) :]):
            try:
                numbers.append(number_of(cell, "regression"))
            except ValueError as error:
                raise fail(name, error) from None
        if split_column:
            word = cells[1 + len(targets) + len(extras)]
            split = _SPLIT_NAMES.get(word.strip().lower())
            if split is None:
                raise fail(
                    split_column,
                    f"{shown(word)} is not a split, expected train|valid|test; --split "
                    "random and scaffold do not read it",
                )
            rows_of.setdefault(split, []).append(row - first)
        if weight_column:
            try:
                weights.append(_weight(cells[width - 1]))
            except ValueError as error:
                raise fail(weight_column, error) from None
        kept.append(cells[width:])
    if problem is not None:
        raise problem.error()
    if not smiles:
        whole = options.shard.is_whole
        text = table.no_rows if whole else "there are no rows in this shard"
        raise DatasetError(f"{path}: {text}")
    if weight_column and options.shard.is_whole and not any(weights):
        raise DatasetError(f"{path}: all weights in column {weight_column!r} are 0")
    target = np.array(values).reshape(len(smiles), len(targets))
    if np.isnan(target).all():
        raise DatasetError(f"{path}: columns {list(targets)} have no label at all")
    if options.target_kind == "multiclass" and len(targets) != 1:
        raise DatasetError(
            f"{path}: a multiclass target is one column, got {list(targets)}"
        )
    for number, column in enumerate(columns):
        try:
            target[:, number] = column.numbered(target[:, number], options.class_names)
        except ValueError as error:
            raise DatasetError(f"{path}: column {column.name!r}: {error}") from None
    if options.class_names and not any(column.classes for column in columns):
        raise DatasetError(f"{path}: --class-names is for targets that are words")
    source = DatasetSource(
        smiles=smiles,
        targets=target,
        splits=_splits(path, first, len(smiles), options, split_column, rows_of),
        target_names=list(targets),
        unit=options.target_unit,
        kind=options.target_kind,
        class_names=[column.classes for column in columns],
        weights=np.array(weights) if weight_column else None,
        graph_features=extras,
        graph_values=np.array(numbers).reshape(len(smiles), len(extras)),
        label=stem(path),
        first_row=first,
    )
    taken = [*filter(None, special), *targets]
    warnings = table.warnings(options.target_columns, taken)
    warnings += [
        f"--missing-labels {word!r} fits no cell of {listed(targets)}"
        for word in unmatched
    ]
    return Labels(source, warnings, others, kept)


def molecules_of(options: DatasetOptions) -> tuple[list[str], list[list[str]]]:
    """Columns of SMILES and, if there is one, of names, and their cells by row.

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


def _splits(
    path: Path,
    first: int,
    rows: int,
    options: DatasetOptions,
    column: str | None,
    rows_of: dict[str, list[int]],
) -> dict[str, np.ndarray] | None:
    """Rows by split; None for a split that needs the molecules."""
    if column:
        for name in ("train", "valid"):
            if name not in rows_of and options.shard.is_whole:
                raise DatasetError(
                    f"{path}: no rows in split {name} (column {column!r}); mark them "
                    f"with the word {name}, or give --split random or scaffold"
                )
        rows_of.setdefault("train", [])  # a shard may have none
        return {name: np.array(rows_of[name], np.int64) for name in rows_of}
    if options.split == "scaffold":
        return None
    if not options.shard.is_whole:
        return random_split_of_rows(first, rows, options.seed)
    try:
        return random_split(rows, options.seed)
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from None


class _WrongLabels:
    """Cells of a target that are no numbers.

    Args:
        first: The error of the first of them.
        place: Of the column among those that are read.
        missing: See `is_missing`.
    """

    def __init__(self, first: DatasetError, place: int, missing: Sequence[str]) -> None:
        self.first, self.place, self.missing = first, place, missing
        self.words: Counter[str] = Counter()

    def add(self, cell: str) -> None:
        """Count a cell of the column."""
        if not is_number(cell) and not is_missing(cell, self.missing):
            self.words[cell.strip()] += 1

    def error(self) -> DatasetError:
        """The first error, how many such cells there are, and what to do about them."""
        words = ", ".join(shown(word, 20) for word, _ in self.words.most_common(4))
        dots = ", ..." * (len(self.words) > 4)
        return DatasetError(
            f"{self.first} ({counted(self.words.total(), 'such cell')}: {words}{dots}); "
            "correct them, or name missing ones with --missing-labels, such as 'ND,>*'"
        )


class _Column:
    """A target column: numbers, or words that name classes.

    Args:
        name: Of the column.
        kind: Of the targets; only classes can be words.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.words: dict[str, int] = {}
        self.has_numbers = False
        self.classes: list[str] = []

    def value(self, cell: str) -> float:
        """A cell's number, or that of its word, in the order in which words come.

        Raises:
            ValueError: It is wrong, or words and numbers are mixed.
        """
        word = cell.strip()
        try:
            number = number_of(word, self.kind)
        except ValueError:
            if self.kind == "regression" or self.has_numbers or _is_like_a_number(word):
                raise
            return self.words.setdefault(word, len(self.words))
        if not math.isnan(number):
            if self.words:
                raise ValueError(f"{word!r} is a number, above are words")
            self.has_numbers = True
        return number

    def numbered(self, values: np.ndarray, asked: Sequence[str]) -> np.ndarray:
        """The values with the words in the order of the classes, which become
        `classes`.

        Raises:
            ValueError: see `class_order`.
        """
        if not self.words:
            return values
        self.classes = class_order(self.words, self.kind, asked)
        place = np.array([self.classes.index(word) for word in self.words] + [math.nan])
        return place[np.where(np.isnan(values), -1, values).astype(int)]


def _is_like_a_number(word: str) -> bool:
    """Whether somebody meant a number: 2, or 1,5, or 1_000."""
    try:
        float(word.replace(",", ".").replace("_", ""))
    except ValueError:
        return False
    return True


def number_of(cell: str, kind: str) -> float:
    """Number of a cell, NaN for an empty one.

    Raises:
        ValueError: it is none, or not one of the kind.
    """
    number, text = number_in(cell), cell.strip()
    if math.isnan(number):
        return number
    if kind == "binary" and number not in (0, 1):
        raise ValueError(f"{shown(text)} is neither 0 nor 1")
    if kind == "multiclass" and (number < 0 or number != int(number)):
        raise ValueError(f"{shown(text)} is not a class number")
    return number


def _weight(cell: str) -> float:
    number = number_of(cell, "regression")
    if not number >= 0:
        raise ValueError(f"{cell.strip()!r} is not a weight, expected 0 or more")
    return number
