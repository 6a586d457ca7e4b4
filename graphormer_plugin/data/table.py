"""Tables of molecules: rows of text cells below a header of column names."""

import contextlib
import csv
import fnmatch
import gzip
import itertools
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from graphormer_plugin.data.cells import is_missing, is_number, shown
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256

ALL = "all"
SPLIT = "split"  # in any case; is a target only where it is named
INDEX = r"|index|unnamed: \d+|__index_level_0__"  # names of an index, most of pandas
# Limits that honest tables keep far below; they bound the memory that a file can take.
LONGEST_ROW = 1 << 24  # characters; Python's own limit of 131,072 cuts a mol block
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))  # of all readers
GZIP_RATIO = 50  # bytes per compressed byte; tables of molecules have 3 to 20
GZIP_FREE = 1 << 26  # bytes that any .gz may have
# Columns with the name of a molecule, in any case; the first that there is counts.
NAMES = (
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


class Table:
    """A file of molecules that is read row by row.

    Args:
        path: The file.
        header: Names of its columns.

    Raises:
        DatasetError: A column is named twice.
    """

    no_smiles = "no SMILES"  # what an empty cell of SMILES means
    no_rows = "there are no rows below the header"

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        self.path = path
        self.header = [name.strip() for name in header]
        self.places = {name: place for place, name in enumerate(self.header)}
        if len(self.places) < len(self.header):
            counts = Counter(self.header)
            repeated = min(name for name in counts if counts[name] > 1)
            raise DatasetError(
                f"{path}: column {shown(repeated)} appears twice in the header; rename "
                "one of them"
            )

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """Yields (row from 0, line of the file from 1, cells of ``columns``)."""
        raise NotImplementedError

    def rows_between(
        self, columns: Sequence[str], first: int, end: int | None
    ) -> Iterator[tuple[int, int, list[str]]]:
        """Those of `rows` from ``first`` to before ``end``; None: to the last one."""
        return itertools.islice(self.rows(columns), first, end)

    def count(self) -> int:
        """Number of rows. A text is read to its end, which finds all wrong rows."""
        return sum(1 for _ in self.rows([]))

    def digest(self, first: int, end: int) -> str:
        """Hash of content that includes the rows from ``first`` to before ``end``."""
        return file_sha256(self.path)

    def require(self, name: str) -> str:
        """The name, if it is a column."""
        if name not in self.places:
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
        return [lower[name] for name in NAMES if name in lower][:1]

    def _has(self) -> str:
        hint = ""
        if len(self.header) == 1 and any(mark in self.header[0] for mark in ";\t"):
            hint = " (cells must be separated by commas)"
        return f"the header has {_listed(self.header)}{hint}"

    def find_split(self, asked: str, others: Sequence[str]) -> str | None:
        """The column of the split, or None.

        Args:
            asked: ``column:NAME`` names it, another word says to do without; empty: the
                one called split in any case.
            others: Columns that are named as something else.

        Raises:
            DatasetError: There is no such column, or more than one.
        """
        if asked.startswith("column:"):
            return self.require(asked.removeprefix("column:"))
        found = [n for n in self.header if n.lower() == SPLIT and n not in others]
        if asked or not found:
            return None
        if len(found) > 1:
            raise DatasetError(
                f"{self.path}: which column has the split, {' or '.join(found)}? Name it "
                f"with --split column:{found[0]}"
            )
        return found[0]

    def free(self, taken: Sequence[str | None]) -> list[str]:
        """Columns that can be targets without being named.

        Args:
            taken: Columns with another meaning.
        """
        return [n for n in self.header if n not in taken and n.lower() != SPLIT]

    def remaining(self, taken: Sequence[str | None]) -> list[str]:
        """The one column that can be the target if none is named.

        Args:
            taken: Columns with another meaning.

        Raises:
            DatasetError: There is not one, or it is called as their names or
                numbers are.
        """
        others = self.free(taken)
        if len(others) != 1:
            raise DatasetError(
                f"{self.path}: which columns are targets? Name them with "
                f"--target-columns; there are {_listed(others)}"
            )
        name = others[0]
        if not name:
            raise DatasetError(
                f"{self.path}: the only other column has no name; give it one if it is "
                "the target"
            )
        if name.lower() in NAMES or re.fullmatch(INDEX, name.lower()):
            raise DatasetError(
                f"{self.path}: the only other column, {name!r}, is called as names or "
                "numbers of molecules are; if it is the target, name it with "
                "--target-columns"
            )
        return others

    def select(
        self,
        asked: Sequence[str],
        others: Sequence[str | None],
        missing: Sequence[str] = (),
    ) -> list[str]:
        """Columns that names, patterns such as ``NR-*``, or ``all`` stand for.

        Args:
            asked: A pattern stands for the columns that it fits, ``all`` for those of
                numbers. Names of molecules and numbers of rows are no numbers.
            others: Columns that patterns and ``all`` never mean.
            missing: See `is_missing`.

        Raises:
            DatasetError: There is no such column.
        """
        free = self.free(others)
        found: list[str] = []
        for name in asked:
            if name in self.places:
                fits = [name]
            elif name == ALL:
                fits = self._numeric(free, missing)
            else:
                fits = fnmatch.filter(free, name) or [self.require(name)]
            found += (
                fits if name in self.places else [f for f in fits if f not in found]
            )
        return found

    def _numeric(self, columns: Sequence[str], missing: Sequence[str]) -> list[str]:
        """Those of the columns that have numbers only."""
        fits = {name: True for name in columns if name.lower() not in NAMES}
        names = list(fits)
        for _, _, cells in self.rows(names):
            for name, cell in zip(names, cells, strict=True):
                fits[name] &= is_number(cell) or is_missing(cell, missing)
        found = [name for name in names if fits[name]]
        numbering = self.row_numbers(found)
        if len(numbering) == len(found):
            but = f" but {_listed(numbering)}, which only numbers the rows"
            but = but if numbering else ""
            raise DatasetError(f"{self.path}: no column of numbers{but}")
        return [name for name in found if name not in numbering]

    def row_numbers(self, columns: Sequence[str]) -> list[str]:
        """Those of the columns that merely number the rows: an index by its name, as
        pandas writes it, or the numbers from 0 or 1 on."""
        left = [(at, start) for at in range(len(columns)) for start in (0, 1)]
        row = -1
        for row, _, cells in self.rows(columns):
            left = [
                (at, start)
                for at, start in left
                if cells[at].strip() == str(row + start)
                or is_number(cells[at])
                and re.fullmatch(INDEX, columns[at].lower())
            ]
            if not left:
                break
        return list(dict.fromkeys(columns[at] for at, _ in left)) if row >= 0 else []

    def warnings(self, asked: Sequence[str], taken: Sequence[str | None]) -> list[str]:
        """Warning of a column that ``all`` leaves out.

        Args:
            asked: See `select`.
            taken: Columns that are used.
        """
        if ALL not in asked or ALL in self.places:
            return []
        numbering = self.row_numbers(self.free(taken))
        return numbering and [
            f"--target-columns all leaves out {_listed(numbering)}, which only "
            "numbers the rows; name it to predict it"
        ]


class CsvTable(Table):
    """A CSV or TSV file, read strictly.

    pandas fills short rows with NaN and renames repeated columns without a word, and
    its errors do not give row and line; a training set should not be mended silently.

    Args:
        path: File; gzipped if it ends in ``.gz``, with tabs if it ends in ``.tsv`` before
            that, else with commas.

    Raises:
        DatasetError: It cannot be read, is empty, or names a column twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
        self.delimiter = "\t" if tabs else ","
        check_expansion(path)
        _, header = next(self._lines(), (0, None))
        if header is None:
            raise DatasetError(f"{path}: the file is empty")
        super().__init__(path, header)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """Yields (row from 0, line of the file from 1, cells of ``columns``)."""
        places = [self.places[name] for name in columns]
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
        opener: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        length = 0  # characters of the row so far, which may have several lines

        def lines(file: TextIO) -> Iterator[str]:
            nonlocal length
            while text := file.readline(LONGEST_ROW + 1 - length):
                length += len(text)
                if length > LONGEST_ROW:
                    raise csv.Error(_too_long())
                yield text

        try:
            with (
                readable(self.path),
                opener(self.path, "rt", encoding="utf-8-sig", newline="") as file,
            ):
                reader = csv.reader(lines(file), delimiter=self.delimiter, strict=True)
                try:
                    for cells in reader:
                        length = 0
                        if cells:
                            yield reader.line_num, cells
                except csv.Error as error:
                    line = reader.line_num + (length > LONGEST_ROW)  # not counted yet
                    raise DatasetError(
                        f"{self.path}: line {line}: {error}; check the quotes there and "
                        "before"
                    ) from None
        except UnicodeDecodeError:
            with opener(self.path, "rb") as file:
                blocks = iter(lambda: file.readline(LONGEST_ROW), b"")
                line = next(n for n, text in enumerate(blocks, 1) if not _is_utf8(text))
            raise DatasetError(
                f"{self.path}: line {line} is not UTF-8 text; save the table in "
                "UTF-8"
            ) from None


def text_lines(path: Path, file: TextIO) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line); DatasetError for one that is too long, no text, or
    that of UTF-16."""
    lines = iter(lambda: file.readline(LONGEST_ROW + 1), "")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_ROW:
            raise DatasetError(f"{path}: line {number}: {_too_long()}")
        if "\0" in line:
            raise DatasetError(
                f"{path}: line {number} is not UTF-8 text; save it in UTF-8"
            )
        yield number, line


def _too_long() -> str:
    return f"a row of more than {LONGEST_ROW:,} characters"


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """One line for what is not a file (reading a pipe or a device may never end), and
    for what goes wrong while it is read."""
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise DatasetError(f"{path} is not a regular file; save the table in one")
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path}: the gzip file is damaged or incomplete: {error}"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}") from None


def check_expansion(path: Path) -> None:
    """Raises DatasetError for a .gz that expands to far more than a table does."""
    if path.suffix.lower() != ".gz":
        return
    with readable(path):
        limit, total = max(GZIP_FREE, GZIP_RATIO * path.stat().st_size), 0
        with gzip.open(path) as file:
            while block := file.read(1 << 20):
                total += len(block)
                if total > limit:
                    raise DatasetError(
                        f"{path} expands to more than {limit:,} bytes, {GZIP_RATIO} "
                        "times its size; gunzip it if that is right"
                    )


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
    return ", ".join(shown(name) for name in names[:limit]) + more
