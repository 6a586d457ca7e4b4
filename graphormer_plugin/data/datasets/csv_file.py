"""Molecules and targets from any CSV file with a column of SMILES."""

from __future__ import annotations

import array
import csv
import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.registry import DatasetSource, RegisteredDataset
from graphormer_plugin.data.splits import random_split

_MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
_LARGEST = float(np.finfo(np.float32).max)
_LONGEST_CELL = 1 << 24  # characters; Python's own limit of 131,072 cuts a mol block
# Columns with the name of a molecule, in any case; the first that there is counts.
_NAMES = (
    *("name", "title", "compound", "compound_name", "molecule", "molecule_name"),
    *(
        "drug",
        "drug_name",
        "id",
        "compound_id",
        "mol_id",
        "molecule_id",
        "cas",
        "chembl_id",
    ),
)
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
    path = Path(options.name).expanduser()
    try:
        return {"file": file_sha256(path), "rule": 1}
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}") from None


def csv_dataset(options: DatasetOptions) -> DatasetSource:
    """Molecules and targets from a CSV file with a header, plain or gzipped.

    Missing targets are empty cells, nan, na, n/a, null or none (in any case). Row
    numbers count data rows from 0, as in predictions; errors also give the line of the
    file, from 1.

    Raises:
        DatasetError: The file cannot be read, or a header, row or cell is wrong; one
            line that names file, row and column.
    """
    path = Path(options.name).expanduser()
    table = CsvTable(path)
    smiles_column = table.find_smiles(options.smiles_column)
    split_column = table.find_split(options.split)
    targets = options.target_columns or table.remaining(smiles_column, split_column)
    for name in targets:
        table.require(name)
    if len(set(targets)) != len(targets):
        raise DatasetError(f"{path}: a target column is named twice: {list(targets)}")
    wanted = [smiles_column, *targets, *([split_column] if split_column else [])]
    smiles: list[str] = []
    values = array.array("d")
    rows_of: dict[str, list[int]] = {}
    for row, line, cells in table.rows(wanted):
        if not cells[0].strip() and not options.skip_invalid:
            raise DatasetError(
                f"{path}: row {row} (line {line}), column {smiles_column!r}: no SMILES; "
                "--skip-invalid leaves such rows out"
            )
        smiles.append(cells[0].strip())
        for name, cell in zip(targets, cells[1 : 1 + len(targets)], strict=True):
            try:
                values.append(_number(cell, options.target_kind))
            except ValueError as error:
                raise DatasetError(
                    f"{path}: row {row} (line {line}), column {name!r}: {error}"
                ) from None
        if split_column:
            split = _SPLIT_NAMES.get(cells[-1].strip().lower())
            if split is None:
                raise DatasetError(
                    f"{path}: row {row} (line {line}), column {split_column!r}: "
                    f"{cells[-1]!r} is not a split, expected train|valid|test"
                )
            rows_of.setdefault(split, []).append(row)
    if not smiles:
        raise DatasetError(f"{path}: there are no rows below the header")
    target = np.frombuffer(values).reshape(len(smiles), len(targets))
    splits: dict[str, np.ndarray] | None = None
    if split_column:
        for name in ("train", "valid"):
            if name not in rows_of:
                raise DatasetError(
                    f"{path}: no rows in split {name} (column {split_column!r})"
                )
        splits = {name: np.array(rows_of[name]) for name in rows_of}
    elif options.split != "scaffold":
        try:
            splits = random_split(len(smiles), options.seed)
        except DatasetError as error:
            raise DatasetError(f"{path}: {error}") from None
    if np.isnan(target).all():
        raise DatasetError(f"{path}: columns {list(targets)} have no label at all")
    if options.target_kind == "multiclass" and len(targets) != 1:
        raise DatasetError(
            f"{path}: a multiclass target is one column, got {list(targets)}"
        )
    label = path.name.removesuffix(".gz").removesuffix(".csv")
    return DatasetSource(
        smiles=smiles,
        targets=target,
        splits=splits,
        target_names=list(targets),
        unit=options.target_unit,
        kind=options.target_kind,
        label=label,
    )


CSV = RegisteredDataset(
    name="csv",
    function=csv_dataset,
    source="csv",
    options=(
        "smiles_column",
        "target_columns",
        "split",
        "seed",
        "target_kind",
        "target_unit",
    ),
    content=_csv_content,
)


def _number(cell: str, kind: str) -> float:
    text = cell.strip()
    if text.lower() in _MISSING:
        return math.nan
    try:
        if "_" in text:  # Python's 1_000, and nobody's number in a CSV
            raise ValueError
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{text!r} is not a number that fits float32")
    if kind == "binary" and number not in (0, 1):
        raise ValueError(f"{text!r} is neither 0 nor 1")
    if kind == "multiclass" and (number < 0 or number != int(number)):
        raise ValueError(f"{text!r} is not a class number")
    return number


class CsvTable:
    """A CSV file that is read row by row, strictly.

    pandas fills short rows with NaN and renames repeated columns without a word, and
    its errors do not give row and line; a training set should not be mended silently.

    Args:
        path: File; gzipped if it ends in ``.gz``.

    Raises:
        DatasetError: It cannot be read, is empty, or names a column twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _, header = next(self._lines(), (0, None))
        if header is None:
            raise DatasetError(f"{path}: the file is empty")
        self.header = [name.strip() for name in header]
        repeated = {name for name in self.header if self.header.count(name) > 1}
        if repeated:
            raise DatasetError(
                f"{path}: column {min(repeated)!r} appears twice in the header; rename "
                "one of them"
            )

    def require(self, name: str) -> str:
        """The name, if it is a column."""
        if name not in self.header:
            raise DatasetError(f"{self.path}: no column {name!r}, {self._has()}")
        return name

    def find_smiles(self, asked: str) -> str:
        """The SMILES column.

        Args:
            asked: Its name; empty selects the one called smiles in any case, else the
                only one with smiles in its name (canonical_smiles).
        """
        if asked:
            return self.require(asked)
        lower = [name.lower() for name in self.header]
        for found in (
            [name == "smiles" for name in lower],
            ["smiles" in name and not {";", "\t"} & {*name} for name in lower],
        ):
            if sum(found) == 1:
                return self.header[found.index(True)]
        raise DatasetError(
            f"{self.path}: which column has the SMILES? Name it with --smiles-column; "
            f"{self._has()}"
        )

    def find_name(self, smiles_column: str) -> list[str]:
        """The column that names the molecules, in a list; empty without one.

        Args:
            smiles_column: cannot be that column.
        """
        lower = {name.lower(): name for name in self.header if name != smiles_column}
        return [lower[name] for name in _NAMES if name in lower][:1]

    def _has(self) -> str:
        hint = ""
        if len(self.header) == 1 and any(mark in self.header[0] for mark in ";\t"):
            hint = " (cells must be separated by commas)"
        return f"the header has {_listed(self.header)}{hint}"

    def find_split(self, asked: str) -> str | None:
        """The column that ``column:NAME`` names; else one called split, or None."""
        if asked.startswith("column:"):
            return self.require(asked.removeprefix("column:"))
        if not asked and "split" in self.header:
            return "split"
        return None

    def remaining(self, smiles_column: str, split_column: str | None) -> list[str]:
        """The one column that can be the target if none is named."""
        others = [
            name
            for name in self.header
            if name not in (smiles_column, split_column, "split")
        ]
        if len(others) != 1:
            raise DatasetError(
                f"{self.path}: which columns are targets? Name them with "
                f"--target-columns; there are {_listed(others)}"
            )
        return others

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """Yields (row from 0, line of the file from 1, cells of ``columns``)."""
        places = [self.header.index(name) for name in columns]
        lines = self._lines()
        next(lines)
        for row, (line, cells) in enumerate(lines):
            if len(cells) != len(self.header):
                raise DatasetError(
                    f"{self.path}: row {row} (line {line}) has {len(cells)} cells, "
                    f"expected {len(self.header)} as the header"
                )
            yield row, line, [cells[place] for place in places]

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yields (line, cells) of all lines that are not blank."""
        opener: Callable[..., Any] = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opener(self.path, "rt", encoding="utf-8-sig", newline="") as file:
                csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
                reader = csv.reader(file, strict=True)
                try:
                    for cells in reader:
                        if cells:
                            yield reader.line_num, cells
                except csv.Error as error:
                    raise DatasetError(
                        f"{self.path}: line {reader.line_num}: {error}; check the "
                        "quotes there and before"
                    ) from None
        except UnicodeDecodeError:
            with opener(self.path, "rb") as file:
                line = next(n for n, text in enumerate(file, 1) if not _is_utf8(text))
            raise DatasetError(
                f"{self.path}: line {line} is not UTF-8 text; save the table as CSV in "
                "UTF-8"
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DatasetError(
                f"{self.path}: the gzip file is damaged or incomplete: {error}"
            ) from None
        except OSError as error:
            raise DatasetError(f"{self.path}: {error.strerror}") from None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _listed(names: Sequence[str], limit: int = 12) -> str:
    if not names:
        return "no other column"
    more = f", and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more
