"""Parquet files of molecules: reading with bounded memory, and writing of predictions."""

import contextlib
import csv
import hashlib
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.tables.table import (
    LONGEST_ROW,
    Table,
    check_expansion,
    readable,
)

# Our choice: rows of a table with 200 columns take some 100 MB as Python's objects.
ROWS_AT_ONCE = 16_384
CHARACTERS_AT_ONCE = 1 << 26  # of rows that are read together; our choice
LONG = 1000  # characters of a cell that equal cells share
BUFFER_BYTES = 1 << 20  # read at once of a column, which may be larger than the memory


class ParquetTable(Table):
    """A Parquet file, or a folder of such files in the order of their names.

    Needs pyarrow. Memory is bounded, whatever the number of rows is.

    Args:
        path: File or folder.

    Raises:
        DatasetError: It cannot be read, or the files of a folder differ in their columns.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not self.files:
            raise DatasetError(f"{path}: Is a directory without .parquet files")
        self.footers = [self._open(file).metadata for file in self.files]
        schemas = [self._open(file).schema_arrow for file in self.files]
        self.schema = schemas[0].remove_metadata()
        for file, schema in zip(self.files, schemas):
            if not schema.remove_metadata().equals(self.schema):
                raise DatasetError(
                    f"{file} has other columns than {self.files[0].name}"
                )
        super().__init__(path, self.schema.names)
        for file, footer in zip(self.files, self.footers):
            check_expansion(file, unpacked_bytes(footer))

    def _open(self, file: Path, footer: Any = None, texts: Sequence[str] = ()) -> Any:
        with parquet_errors(file):
            return pyarrow_parquet().ParquetFile(
                file,
                metadata=footer,
                read_dictionary=texts,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
            )

    def count(self) -> int:
        """Number of rows."""
        return sum(footer.num_rows for footer in self.footers)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """See `Table.rows`."""
        return self.rows_between(columns, 0, None)

    def rows_between(
        self, columns: Sequence[str], first: int, end: int | None
    ) -> Iterator[tuple[int, int, list[str]]]:
        """See `Table.rows_between`."""
        end = self.count() if end is None else end
        names = [self.schema.names[self.places[name]] for name in columns]
        shared: dict[str, str] = {}
        for row, batch in self.batches(names or self.schema.names[:1], first, end):
            values = batch.to_pydict()
            for place in range(batch.num_rows):
                number = row + place
                cells = [cell(values[name][place]) for name in names]
                size = sum(map(len, cells))
                if size > LONGEST_ROW:
                    text = f"row {number} has more than {LONGEST_ROW:,} characters"
                    raise self.error(text)
                if size > LONG:
                    cells = [
                        shared.setdefault(c, c) if len(c) > LONG else c for c in cells
                    ]
                yield number, number + 1, cells

    def batches(
        self, names: Sequence[str], first: int, end: int
    ) -> Iterator[tuple[int, Any]]:
        """Yields (number of the first row, record batch) of the rows from ``first`` to
        before ``end``."""
        for file, footer, groups, start in self._overlapping(first, end):
            with parquet_errors(file):
                columns = list(dict.fromkeys(names))
                batches = self._open(file, footer).iter_batches(
                    min(self._rows_at_once(file, footer, g, columns) for g in groups),
                    row_groups=groups,
                    columns=columns,
                )
                for batch in batches:
                    low, high = max(first - start, 0), min(end - start, batch.num_rows)
                    if low < high:
                        yield start + low, batch.slice(low, high - low)
                    start += batch.num_rows

    def _rows_at_once(
        self, file: Path, footer: Any, group: int, names: Sequence[str]
    ) -> int:
        """Rows of a group that take at most `CHARACTERS_AT_ONCE` if each of them names the
        longest text of its dictionaries, which a file has once for all rows."""
        import pyarrow.compute

        texts = [name for name in names if is_text(self.schema.field(name).type)]
        reader = self._open(file, footer, texts)
        longest = 1
        for batch in reader.iter_batches(1, row_groups=[group], columns=texts):
            for column in batch.columns:
                sizes = pyarrow.compute.binary_length(column.dictionary)
                longest += pyarrow.compute.max(sizes).as_py() or 0
            break
        return max(1, min(ROWS_AT_ONCE, CHARACTERS_AT_ONCE // longest))

    def _overlapping(
        self, first: int, end: int
    ) -> Iterator[tuple[Path, Any, list[int], int]]:
        """Yields (file, footer, row groups with some of these rows, row at which the
        first of them starts)."""
        start = 0
        for file, footer in zip(self.files, self.footers):
            groups: list[int] = []
            begin = start
            for group in range(footer.num_row_groups):
                rows = footer.row_group(group).num_rows
                if start < end and start + rows > first:
                    begin = begin if groups else start
                    groups.append(group)
                start += rows
            if groups:
                yield file, footer, groups, begin

    def digest(self, first: int, end: int) -> str:
        """Hash of the files' names, of their footers, and of the bytes of the row groups
        that hold the rows from ``first`` to before ``end``."""
        digest = hashlib.sha256()
        for path, footer in zip(self.files, self.footers):
            with open(path, "rb") as file:
                file.seek(-footer.serialized_size - 8, 2)
                digest.update(path.name.encode() + file.read())
        for path, footer, groups, _ in self._overlapping(first, end):
            with open(path, "rb") as file:
                for group in groups:
                    for start, size in _extents(footer.row_group(group)):
                        file.seek(start)
                        while size > 0 and (block := file.read(min(size, 1 << 20))):
                            digest.update(block)
                            size -= len(block)
        return digest.hexdigest()


def _extents(group: Any) -> Iterator[tuple[int, int]]:
    """Yields (first byte, bytes) of each column of a row group."""
    for number in range(group.num_columns):
        column = group.column(number)
        first = column.data_page_offset
        if column.has_dictionary_page:
            first = min(first, column.dictionary_page_offset)
        yield first, column.total_compressed_size


def unpacked_bytes(footer: Any) -> int:
    """Bytes of a file's columns without compression; an entry of a list counts as one at
    least, however many of them an encoding says in a few bytes."""
    total = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            entries = column.num_values - group.num_rows
            total += max(column.total_uncompressed_size, entries)
    return total


def is_text(kind: Any) -> bool:
    """Whether a type of pyarrow is text or bytes, perhaps in a dictionary."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_string, types.is_large_string, types.is_binary)
    return any(test(kind) for test in (*tests, types.is_large_binary))


def cell(value: Any) -> str:
    """A value of a Parquet file as text: truth values are 1 and 0."""
    if value is None or isinstance(value, float) and math.isnan(value):
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def pyarrow_parquet() -> Any:
    """The module ``pyarrow.parquet``.

    Raises:
        DatasetError: It is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise DatasetError(
            "Parquet files need pyarrow: pip install 'graphormer-plugin[parquet]'"
        ) from None
    return pyarrow.parquet


@contextlib.contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """See `readable`; DatasetError instead of pyarrow's exceptions."""
    try:
        with readable(path):
            yield
    except ValueError as error:  # pyarrow's ArrowInvalid is one
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path}: {' '.join(str(error).split())}") from None


def array_of(cells: Sequence[str], is_number: bool) -> Any:
    """Predicted cells as an array of pyarrow; an empty cell is null."""
    import pyarrow

    if is_number:
        numbers = [float(text) if text else None for text in cells]
        return pyarrow.array(numbers, pyarrow.float64())
    return pyarrow.array([text or None for text in cells], pyarrow.string())


def write_parquet(
    source: Path,
    output: Path,
    table: Table,
    numbers: Collection[str],
    first: int,
    end: int,
) -> None:
    """Parquet of a CSV file; see `write_table` of `table_formats`."""
    import pyarrow

    parquet = pyarrow_parquet()
    width = len(table.header)
    with open(source, encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        new = [(name, name in numbers) for name in next(lines)[width:]]
        typed = isinstance(table, ParquetTable)
        text = [pyarrow.field(name, pyarrow.string()) for name in table.header]
        schema = pyarrow.schema(
            [
                *(table.schema if typed else text),
                *(pyarrow.field(name, array_of([], of).type) for name, of in new),
            ]
        )

        def _pieces() -> Iterator[tuple[list[Any], list[list[str]]]]:
            if typed:
                for _, batch in table.batches(table.schema.names, first, end):
                    yield batch.columns, list(itertools.islice(lines, batch.num_rows))
                return
            while cells := list(itertools.islice(lines, ROWS_AT_ONCE)):
                columns = list(zip(*cells))[:width]
                yield [pyarrow.array(c, pyarrow.string()) for c in columns], cells

        with atomic_write(output) as out, parquet.ParquetWriter(out, schema) as writer:
            for old, cells in _pieces():
                columns = list(zip(*cells))[width:]
                arrays = [
                    array_of(column, is_number)
                    for column, (_, is_number) in zip(columns, new, strict=True)
                ]
                writer.write_batch(pyarrow.record_batch([*old, *arrays], schema=schema))
