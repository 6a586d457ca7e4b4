"""Tables of molecules: CSV, TSV, SDF, Excel, Parquet and .smi to read; predictions to write."""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import atomic_write, write_csv
from graphormer_plugin.data.graphs.smiles import (
    captured_rdkit_log,
    is_molecule,
    mol_of_smiles,
)
from graphormer_plugin.data.graphs.sources import MolBlock, Source, Unreadable
from graphormer_plugin.data.tables.atoms import AtomsTable, write_frames
from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.excel import ExcelTable
from graphormer_plugin.data.tables.parquet import ParquetTable, write_parquet
from graphormer_plugin.data.tables.table import (
    CsvTable,
    Lines,
    Table,
    TextTable,
    is_header,
    readable,
)

END_OF_RECORD = "$$$$"
END_OF_BLOCK = "M  END"
MOST_PLACED = 300  # atoms of the largest molecule that is drawn, which takes 20 ms
MOST_LINES = (
    20_000  # of a mol block, about two an atom: RDKit crashes on a longer chain
)
# A data item's first line: its name, or the number of a field.
ITEM = re.compile(r">(?:.*?<(.+)>|\s+(DT\d+)\b)")

TEXTS = (
    ".csv .tsv .sdf .sd .mol .smi .smiles .ism .xyz .extxyz".split()
)  # also with .gz
READABLE = (
    *TEXTS,
    *(f"{end}.gz" for end in TEXTS),
    ".parquet",
    ".xlsx",
    ".xlsm",
    ".db",
)
XYZ = (".xyz", ".extxyz")
ATOMS = (*XYZ, ".db")
WRITABLE = (".csv", ".tsv", ".sdf", ".parquet", *XYZ)
REFUSED = {
    **dict.fromkeys((".mol2", ".pdb", ".cif"), "convert it to .sdf"),
    **dict.fromkeys((".bz2", ".xz", ".zst", ".zip"), "unpack it, or pack it as .gz"),
    **dict.fromkeys((".xls", ".ods"), "save it as .xlsx"),
    **dict.fromkeys(
        ".json .jsonl .ndjson .pkl .pickle .npz .h5 .hdf5 .feather .traj".split(),
        "save it as .csv or .parquet, atoms with positions as .xyz (ase convert)",
    ),
}


def is_table(path: Path) -> bool:
    """Whether it is the path of a table of molecules, or a folder of Parquet files."""
    # A SMILES may be too long for a path, which Path.is_dir raises.
    return path.name.lower().endswith((*READABLE, *REFUSED)) or (
        os.path.isdir(path) and any(path.glob("*.parquet"))
    )


def ending(path: Path) -> str:
    """Ending of a file's name in lower case, without ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def stem(path: Path) -> str:
    """The file's name without the ending of a table."""
    ends = [end for end in READABLE if path.name.lower().endswith(end)]
    return path.name[: -len(max(ends, key=len))] if ends else path.name


def open_table(path: Path) -> Table:
    """The table in a file; the ending of its name says the format, by default CSV.

    A folder holds Parquet files, as Spark, Dask and shards of predictions have them.
    """
    if path.name == "-" and not path.exists():
        raise DatasetError("-: standard input is not read; save the table in a file")
    end = ending(path)
    advice = REFUSED.get(path.suffix.lower())
    if advice and not path.is_dir():
        raise DatasetError(f"{path}: {path.suffix} files are not read; {advice}")
    if end in (".sdf", ".sd", ".mol"):
        return SdfTable(path)
    if end in (".smi", ".smiles", ".ism"):
        return SmilesTable(path)
    if end in (".xlsx", ".xlsm"):
        return ExcelTable(path)
    if end in ATOMS:
        return AtomsTable(path)
    if end == ".parquet" or path.is_dir():
        return ParquetTable(path)
    if path.suffix.lower() == ".txt" and is_list_of_smiles(path):
        return SmilesTable(path)
    return CsvTable(path)


def is_list_of_smiles(path: Path) -> bool:
    """Whether the first line of a text is a SMILES, perhaps with a name, and not a header."""
    with readable(path), open(path, encoding="utf-8-sig", errors="replace") as lines:
        first = next(filter(str.strip, lines), "")
    smiles, *_ = first.split() or [""]
    return not is_header([first]) and is_molecule(smiles)


class SdfTable(TextTable):
    """An SDF file: columns of SMILES, of titles if there are some, and of data items.

    RDKit writes the SMILES of the mol blocks, below which the rest of the block stands if its
    positions are read. An item that a record lacks is an empty cell.

    Records are split and items are read here, because RDKit's suppliers lose the items of a
    molecule that RDKit refuses, all but the last of several items with one name, and the
    end of a file that is cut off.
    """

    sources = (str, MolBlock)
    no_smiles = "RDKit cannot read the mol block"
    no_rows = "there are no molecules"

    def _read_header(self) -> Sequence[str]:
        names: dict[str, None] = {}
        titles = False
        for _, record in self.records():
            titles |= bool(title(record))
            names |= dict.fromkeys(items(record))
        made = ["smiles", *(["title"] if titles else [])]
        self._columns = {name: name for name in names}  # columns of the items
        for name in names:
            if name.lower() in made:
                free = (f"{name}_{number}" for number in itertools.count(2))
                self._columns[name] = next(new for new in free if new not in names)
        self._has_titles = titles
        return [*made, *self._columns.values()]

    def lines(self, columns: Sequence[str]) -> Lines:
        """See `Table.lines`."""
        for line, record in self.records():
            cells: dict[str, Any] = {
                self._columns[n]: cell for n, cell in items(record).items()
            }
            if "smiles" in columns:
                cells["smiles"] = self._molecule_of(record)
            if self._has_titles:
                cells["title"] = title(record)
            yield line, [cells.get(name, "") for name in columns]

    def _molecule_of(self, record: Sequence[str]) -> Source:
        """SMILES of a record's mol block, or the block with its positions. If RDKit refuses the
        molecule, so that it will refuse the SMILES for the same reason, it is written as it
        stands."""
        ends = [
            index for index, line in enumerate(record) if line.startswith(END_OF_BLOCK)
        ]
        if not ends:
            return Unreadable("the record has no mol block")
        if ends[0] > MOST_LINES:
            lines = f"a mol block of {ends[0]:,} lines, expected {MOST_LINES:,} at most"
            return Unreadable(lines)
        with_positions = self.source is MolBlock
        block = "\n".join(record[: ends[0] + 1]) + "\n"
        with rdBase.BlockLogs():
            mol = Chem.MolFromMolBlock(block, removeHs=not with_positions)
            written = mol
            if mol is None:
                written = Chem.MolFromMolBlock(block, sanitize=False)
            elif with_positions:
                written = Chem.RemoveHs(mol)
        if written is not None:
            smiles = Chem.MolToSmiles(written)
            if not with_positions:
                return smiles
            return MolBlock(smiles, "\n".join(record[1:]), mol, self.length)
        with captured_rdkit_log() as messages:
            Chem.MolFromMolBlock(block)
        # RDKit prints a frame of stars and "Post-condition Violation" above some reasons.
        words = (
            text for text in messages if text.strip("* ") and "Violation" not in text
        )
        return Unreadable(next(words, self.no_smiles))

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (line of the file from 1, lines but the last)."""
        record: list[str] = []
        start = 1
        with self.open_lines() as lines:
            for number, line in enumerate(lines, 1):
                if line.startswith(END_OF_RECORD):
                    yield start, record
                    record = []
                    start = number + 1
                else:
                    record.append(line.rstrip("\r\n"))
        if not any(line.strip() for line in record):
            return
        if ending(self.path) == ".mol":  # a single mol block
            yield start, record
        else:
            end = f"does not end ({END_OF_RECORD} is missing)"
            raise self.error(f"the record of line {start} {end}")


class SmilesTable(TextTable):
    """A file with a SMILES and perhaps a name per line. A first line whose SMILES is the word
    smiles is a heading; a line that begins with a tab has only a name."""

    no_rows = "there are no molecules"
    no_labels = "SMILES and names, no labels; save them as CSV with a header"

    def _read_header(self) -> Sequence[str]:
        has_names = any(name for _, _, name in self._lines())
        return ["smiles", *(["name"] if has_names else [])]

    def lines(self, columns: Sequence[str]) -> Lines:
        """See `Table.lines`."""
        for line, smiles, name in self._lines():
            cells = {"smiles": smiles, "name": name}
            yield line, [cells[column] for column in columns]

    def _lines(self) -> Iterator[tuple[int, str, str]]:
        """Yield (line, SMILES, name) of all lines that are not blank."""
        with self.open_lines() as lines:
            for line, text in enumerate(lines, 1):
                cells = ["", text] if text.startswith("\t") else text.split(maxsplit=1)
                smiles, name = (cell.strip() for cell in (*cells, "", "")[:2])
                heading = smiles.lower() if line == 1 else ""
                if heading.startswith(("smiles,", "smiles;")):
                    raise self.error(
                        f"a table with the heading {shown(text.strip())}; save it with "
                        "commas, with a name that ends in .csv"
                    )
                if (smiles or name) and heading != "smiles":
                    yield line, smiles, name


def title(record: Sequence[str]) -> str:
    """First line of a record; empty if it has no line."""
    return record[0].strip() if record else ""


def items(record: Sequence[str]) -> dict[str, str]:
    """Data items of a record. Blanks join the lines of a value, and the different values of
    items with one name."""
    values: dict[str, dict[str, None]] = {}
    lines = iter(record)
    for line in lines:
        match = ITEM.match(line)
        if match:
            name = (match[1] or match[2]).strip()
            parts = itertools.takewhile(str.strip, lines)
            text = " ".join(part.strip() for part in parts)
            values.setdefault(name, {})[text] = None
    return {name: " ".join(filter(None, texts)) for name, texts in values.items()}


def check_output(output: Path, table: Table) -> None:
    """Raise ValueError if an output has a format that the rows of a table do not have."""
    if output.suffix.lower() in XYZ and not isinstance(table, AtomsTable):
        raise ValueError(
            f"{output}: {table.path} is no .xyz or .db; give another ending"
        )


def write_table(
    output: Path,
    rows: Iterator[list[Any]],
    table: Table,
    column: str,
    numbers: Mapping[str, Callable[[float], str]],
    first: int,
    end: int,
) -> None:
    """Write a header and rows, from ``first`` to before ``end`` of a table, in the format that
    the name of the output says: the table's columns, and new ones, some of them ``numbers``,
    given with their texts.

    SDF repeats the records of an SDF input, with the new columns as data items; for other
    inputs the molecules of the ``column`` of SMILES are drawn, with all columns as items.
    For extended xyz, see `write_frames`.
    Parquet keeps the types of a Parquet input; columns of other inputs are text, and an empty
    new cell is null. A nested list is an array of atoms in extended xyz, else text, whose form
    in Python is that of JSON.
    """
    suffix = output.suffix.lower()
    rows = _texts(rows, numbers)
    if suffix == ".parquet":
        write_parquet(output, rows, table, numbers, first, end)
    elif suffix == ".sdf":
        with atomic_write(output, "w", encoding="utf-8") as out:
            _write_sdf(rows, out, table, column, first)
    elif suffix in XYZ:
        with atomic_write(output, "w", encoding="utf-8") as out:
            write_frames(out, rows, table, numbers, first)
    else:
        write_csv(output, rows, delimiter="\t" if suffix == ".tsv" else ",")


def _texts(
    rows: Iterator[list[Any]], numbers: Mapping[str, Callable[[float], str]]
) -> Iterator[list[Any]]:
    """Yield a header and rows whose ``numbers`` are text; an empty cell stays."""
    header = next(rows)
    yield header
    places = [place for place, name in enumerate(header) if name in numbers]
    for row in rows:
        for place in places:
            if row[place] != "":
                row[place] = numbers[header[place]](row[place])
        yield row


def _write_sdf(
    rows: Iterator[list[Any]], out: IO[str], table: Table, column: str, first_row: int
) -> None:
    header = next(rows)
    first = 0
    names = table.find_name(column)
    records = itertools.repeat(None)
    if isinstance(table, SdfTable):
        first = len(table.header)
        records = itertools.islice(table.records(), first_row, None)
    for cells, record in zip(rows, records):
        values = dict(zip(header, cells, strict=True))
        if record is not None:
            lines = record[1]
            while lines and not lines[-1].strip():
                lines.pop()
            block = "\n".join(lines) + "\n"
            if lines and not lines[-1].startswith(END_OF_BLOCK):
                block += "\n"  # a data item ends with a blank line
        else:
            title = values[names[0]] if names else ""
            block = drawn_block(values[column], title)
        out.write(block)
        for name in header[first:]:
            if text := sdf_line(str(values[name])):
                out.write(f">  <{' '.join(name.split())}>\n{text}\n\n")
        out.write(END_OF_RECORD + "\n")


def sdf_line(text: str) -> str:
    """A text as one line of an SDF that does not end the record; readers strip the blank."""
    line = " ".join(text.split())
    return " " * line.startswith(END_OF_RECORD) + line


def drawn_block(smiles: str, title: str) -> str:
    """Mol block of a SMILES with 2D coordinates; without atoms if RDKit refuses it, and
    without coordinates if it is large, because their time grows with the cube of the
    atoms."""
    try:
        with rdBase.BlockLogs():
            mol = mol_of_smiles(smiles)
    except ValueError:
        mol = Chem.Mol()
    if mol.GetNumAtoms() <= MOST_PLACED:
        rdDepictor.Compute2DCoords(mol)
    else:  # all in one place; without, MolToMolBlock would look for some
        mol.AddConformer(Chem.Conformer(mol.GetNumAtoms()))
    mol.SetProp("_Name", sdf_line(title))
    return Chem.MolToMolBlock(mol)
