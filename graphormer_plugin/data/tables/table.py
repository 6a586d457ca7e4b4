"""Tables of molecules: rows of text cells below a header of column names."""

import contextlib
import copy
import csv
import fnmatch
import gzip
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from graphormer_plugin.data.errors import DatasetError, counted, listed, named_damage
from graphormer_plugin.data.files import file_sha256, open_to_read
from graphormer_plugin.data.graphs.conformers import LENGTH_UNITS
from graphormer_plugin.data.graphs.sources import FORMATS, MolBlock, Source
from graphormer_plugin.data.tables.cells import TO, shown

# Lines of a file, from 1, and cells of some columns.
Lines = Iterator[tuple[int, list[Any]]]
ALL = "all"  # word of --target-columns: all columns of numbers
SPLIT = "split"  # in any case; a target only if it is named
csv.field_size_limit(1 << 24)  # Python's own limit of 131,072 cuts a mol block
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MOST_ABOVE = 8  # rows above a header; our choice
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # Python's escapes of other bytes
# Columns that name a molecule, in any case; the first one in a table counts.
NAMES = (
    "name title compound compound_name molecule molecule_name drug drug_name id "
    "compound_id mol_id molecule_id cas chembl_id"
).split()


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        number: from 0.
        line: line of the file, from 1; 0 if it is not known.
        source: its molecule; None if no column of molecules is read.
        cells: texts of the columns that are read.
    """

    number: int
    line: int
    source: Source | None
    cells: list[str]


class Table:
    """A file of molecules that is read row by row.

    Args:
        header: names of its columns; None: they are in the file.

    Attributes:
        header: names of the columns. A repeated name gets the number of the column behind
            it, and no column of that name can be used.
        source: the type of the molecules that rows have, see `in_format`.
        notes: what is unusual about the way it is read, a line each.
        forces: array of the forces of atoms that are read; empty without.
        width: number of columns in the file.
        ends: columns that `join_ends` makes one, by its name.
    """

    sources: tuple[type, ...] = (str,)  # types of molecules, of `FORMATS`
    no_smiles = "no SMILES"  # meaning of an empty cell of SMILES
    no_rows = "there are no rows below the header"
    forces = ""
    length = 1.0  # unit of positions, in angstrom
    no_labels = ""  # for a format without labels: what it holds, and what to do
    decimal_comma = False  # whether a comma in a number can only be the decimal one

    def __init__(self, path: Path, header: Sequence[str] | None = None) -> None:
        self.path = path
        self.source = self.sources[0]
        self.notes: dict[str, None] = {}
        header = self._read_header() if header is None else header
        names = [name.strip() for name in header]
        self.width = len(names)
        self.ends: dict[str, list[str]] = {}
        self.repeated = {name for name, n in Counter(names).items() if n > 1}
        self.places: dict[str, int] = {}
        for index, name in enumerate(names):
            if name in self.places:
                name = f"{name}_{index + 1}"
                self.repeated.add(name)
            self.places[name] = index
        self.header = [*self.places]

    def _read_header(self) -> Sequence[str]:
        """Names of the columns."""
        raise NotImplementedError

    def error(self, text: str) -> DatasetError:
        """An error that names the file."""
        return DatasetError(f"{self.path}: {text}")

    @property
    def taken(self) -> list[str]:
        """Names that no new column can have."""
        return self.header

    @property
    def usual_targets(self) -> list[str]:
        """Columns that are the target if none is named, by their names."""
        return []

    def in_format(
        self,
        source: type,
        length_unit: str = "",
        forces: str | None = None,
        targets: Sequence[str] = (),
    ) -> Self:
        """The table with another type of the molecules in their column, the unit of their
        positions, and the ``forces`` among them: those of a name, by default (empty) those of
        the ``targets``, or none."""
        if length_unit and source is str:
            raise self.error("--length-unit is for --positions file")
        if forces:
            raise self.error("--forces-column is for .xyz and .db files")
        if source not in self.sources:
            advice = (
                "--positions file is for .sdf, .xyz and .db files, --positions rdkit makes "
                "conformers of SMILES"
            )
            raise self.error(
                f"has {' or '.join(FORMATS[one] for one in self.sources)}, expected "
                f"{FORMATS[source]}; {advice}"
            )
        table = copy.copy(self)
        table.source = source
        table.length = LENGTH_UNITS.get(length_unit, 1.0)
        return table

    def rows(
        self,
        columns: Sequence[str],
        molecules: str = "",
        first: int = 0,
        end: int | None = None,
    ) -> Iterator[Row]:
        """Yield the rows from ``first`` to before ``end`` (None: to the last) with the texts of
        ``columns``, and the sources in a column of ``molecules``."""
        names = [*columns, *filter(None, [molecules])]
        read = [part for name in names for part in self.ends.get(name, [name])]
        for number, (line, cells) in enumerate(self.part(read, first, end), first):
            source = self.molecule(cells.pop()) if molecules else None
            texts = [*map(str, cells)]
            for place, name in enumerate(columns if self.ends else ()):
                if name in self.ends:
                    texts[place : place + 2] = [TO.join(texts[place : place + 2])]
            yield Row(number, line, source, texts)

    def join_ends(self, targets: Sequence[str], extras: Sequence[str]) -> None:
        """Read each pair of columns such as IC50_low and IC50_high, in any case, as one, IC50, of
        intervals, if ``targets`` name it or none; but no end that they or ``extras`` name,
        and not if there is an IC50."""
        patterns = ["*" if target == ALL else target for target in targets or [ALL]]
        free = {*self.header} - {*targets, *extras} - self.repeated
        lower = {name.lower(): name for name in self.header if name in free}
        for low in [name for key, name in lower.items() if key.endswith("_low")]:
            name = low[: -len("_low")]
            high = lower.get(f"{name}_high".lower())
            fits = any(p == name or fnmatch.filter([name], p) for p in patterns)
            if not (name and high and fits):
                continue
            ends = f"{low!r} and {high!r} are"
            if name in self.places:
                self.notes[f"{ends} not read as ends of {name!r}, a column"] = None
                continue
            self.notes[f"{ends} the ends of {name!r}"] = None
            self.ends[name] = [low, high]
            self.places[name] = self.places[low]
            self.header[self.header.index(low)] = name
            self.header.remove(high)

    def part(self, columns: Sequence[str], first: int, end: int | None) -> Lines:
        """The `lines` of some rows."""
        return itertools.islice(self.lines(columns), first, end)

    def lines(self, columns: Sequence[str]) -> Lines:
        """Yield all rows; cells are texts, or sources of a format."""
        raise NotImplementedError

    def molecule(self, cell: Source) -> Source:
        """The source in a cell, a SMILES without blanks around it."""
        return cell.strip() if isinstance(cell, str) else cell

    def count(self) -> int:
        """Number of rows. A text is read to its end, which finds all wrong rows."""
        return sum(1 for _ in self.rows([]))

    @cached_property
    def digest(self) -> str:
        """Hash of the file."""
        return file_sha256(self.path)

    def require(self, name: str) -> str:
        """The name, if it is a column and no other column has it."""
        if self.existing(name) in self.repeated:
            text = f"several columns have the name {shown(name)}"
            raise self.error(f"{text}, or had it; rename them")
        return name

    def existing(self, name: str) -> str:
        """The name, if it is a column."""
        if name not in self.places:
            raise self.error(f"no column {name!r}, {self._has()}")
        return name

    def find_smiles(self, column: str) -> str:
        """The SMILES column: the one that is asked for, else the column called smiles in any
        case, else the only column with smiles in its name (canonical_smiles); without any, the
        column of InChI, found in the same way."""
        if column:
            return self.require(column)
        for word in ("smiles", "inchi"):
            lower = {name: name.lower().replace("inchikey", "") for name in self.header}
            named = [name for name in self.header if word in lower[name]]
            exact = [name for name in named if lower[name] == word]
            for names in (exact, named):
                if len(names) == 1:
                    return self.require(names[0])
            if named:
                break
        second = "; a second molecule per row is not read" if len(named) > 1 else ""
        raise self.error(
            f"which column has the SMILES? Name it with --smiles-column{second}; "
            f"{self._has()}"
        )

    def find_name(self, smiles_column: str) -> list[str]:
        """List of the column that names the molecules; empty without such a column."""
        lower = {name.lower(): name for name in self.header if name != smiles_column}
        return [lower[name] for name in NAMES if name in lower][:1]

    def note_titles(self, count: int) -> None:
        """Note rows above the header that are not read."""
        if count:
            self.notes[f"{counted(count, 'row')} above the header skipped"] = None

    def _has(self) -> str:
        return f"the header has {listed_columns(self.header)}"


class TextTable(Table):
    """A text file of molecules, gzipped if it ends in ``.gz``.

    It is UTF-8, or Windows-1252 (with a note), which has the letters of Latin-1: the first
    line that is not ASCII decides.
    """

    @contextlib.contextmanager
    def open_lines(self) -> Iterator[Iterator[str]]:
        """The file's lines, while it is open."""
        opener: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        options = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
        with readable(self.path), opener(self.path, "rt", **options) as file:
            yield self._decoded(file)

    def _decoded(self, file: IO[str]) -> Iterator[str]:
        encoding = ""
        for number, line in enumerate(file, 1):
            if "\0" in line:  # UTF-16, or an .xls
                text = f"line {number} is not UTF-8 text"
                raise self.error(f"{text}; save it as CSV in UTF-8, or as .xlsx")
            if not line.isascii():
                if not encoding and NOT_UTF8.search(line):
                    encoding = "cp1252"
                    self.notes["text that is not UTF-8 is read as Windows-1252"] = None
                encoding = encoding or "utf-8"
                data = line.encode(errors="surrogateescape")
                line = data.decode(encoding, "replace")
            yield line


class CsvTable(TextTable):
    """A CSV or TSV file, read strictly.

    pandas fills short rows with NaN and renames repeated columns without a word, and its
    errors do not give row and line. Blank lines and rows of empty cells are skipped.

    Cells of molecules may have mol blocks below their SMILES. Cells are
    separated by tabs in a ``.tsv``, else by commas; or by the character that a first
    line such as ``sep=;`` names; or by another of `SEPARATORS` if the header would be a single
    cell.
    """

    sources = (str, MolBlock)

    def _read_header(self) -> Sequence[str]:
        tabs = self.path.name.lower().removesuffix(".gz").endswith(".tsv")
        usual = "\t" if tabs else ","
        with self.open_lines() as lines:
            some = (line for line in lines if line.strip("\r\n"))
            start = [*itertools.islice(some, MOST_ABOVE + 2)]
        named = re.match('"?sep=(.)', start[0]) if start else None  # a line of Excel's
        self.lines_above = 1 if named else 0
        start = start[self.lines_above :]
        self.delimiter = usual
        titles = 0
        for delimiter in [named[1]] if named else [usual, *SEPARATORS]:
            rows = [*csv.reader(start, delimiter=delimiter)]
            above = rows_above_header(rows)
            if len(rows) > above and len(rows[above]) > 1:
                self.delimiter = delimiter
                titles = above
                break
        first, second = (*start[titles:], "", "")[:2]
        self.lines_above += titles
        self.note_titles(titles)
        _, header = next(
            itertools.islice(self._lines(), self.lines_above, None), (0, [])
        )
        if not header:
            raise self.error("the file is empty")
        if self.delimiter != usual:
            by = SEPARATORS.get(self.delimiter, self.delimiter)
            text = f"cells are separated by {by}"
            self.notes[text] = None
        if len(header) == 1 < len(first.split()) == len(second.split()):
            text = f"the header is a single cell, {shown(first.strip())}"
            raise self.error(f"{text}; separate the cells by commas")
        self.decimal_comma = self.delimiter == ";"
        return header

    def lines(self, columns: Sequence[str]) -> Lines:
        """See `Table.lines`."""
        places = [self.places[name] for name in columns]
        lines = itertools.islice(self._lines(), self.lines_above + 1, None)
        if self.width > 1:
            lines = (
                (number, cells) for number, cells in lines if any(map(str.strip, cells))
            )
        for row, (line, cells) in enumerate(lines):
            if len(cells) != self.width:
                raise self.error(
                    f"row {row} (line {line}) has {counted(len(cells), 'cell')}, expected "
                    f"{self.width} as the header"
                )
            yield line, [cells[place] for place in places]

    def molecule(self, cell: Source) -> Source:
        """See `Table.molecule`."""
        text = super().molecule(cell)
        placed = text and self.source is MolBlock
        return MolBlock.of(text, self.length) if placed else text

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells) of all lines that are not blank."""
        with self.open_lines() as lines:
            reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
            try:
                for cells in reader:
                    if cells:
                        yield reader.line_num, cells
            except csv.Error as error:
                line = f"line {reader.line_num}: {error}"
                raise self.error(f"{line}; check the quotes there and before") from None


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row has the name of a column of molecules."""
    names = [cell.lower() for cell in cells if "=" not in cell]  # an InChI has it
    return any("smiles" in name or "inchi" in name for name in names)


def rows_above_header(rows: Sequence[Sequence[str]]) -> int:
    """Number of rows, such as a title, above the header in the first rows of a table: the header
    names a column of molecules, and has more cells than each row above it."""
    filled = [sum(1 for cell in row if cell.strip()) for row in rows]
    for index, row in enumerate(rows[: MOST_ABOVE + 1]):
        if is_header(row) and filled[index] > max(filled[:index], default=1):
            return index
    return 0


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """One line for an error of reading, and for what is not a file: reading a pipe or a
    device may never end."""
    with named_damage(f"{path}: damaged or incomplete", DatasetError):
        try:
            open_to_read(path).close()
            yield
        except OSError as error:
            if error.strerror is None:  # raised by gzip or pyarrow
                raise
            raise DatasetError(f"{path}: {error.strerror}") from None


def listed_columns(names: Sequence[str]) -> str:
    """Names of columns in a message, at most 12."""
    return listed(map(shown, names), 12) or "no other column"
