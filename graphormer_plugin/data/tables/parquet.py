"""Parquet files of molecules: reading with bounded memory, and writing of predictions."""

import csv
import hashlib
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.files import (
    atomic_write,
    check_unpacked,
    file_sha256,
    open_to_read,
)
from graphormer_plugin.data.tables.parquet_pages import unpacked
from graphormer_plugin.data.tables.table import Table, readable

# Our choice: rows of a table with 200 columns take some 100 MB as Python's objects.
ROWS_AT_ONCE = 16_384
CHARACTERS_AT_ONCE = 1 << 26  # of rows that are read together; our choice
LONG = 1000  # characters of a cell that equal cells share
DELTA = "DELTA_BYTE_ARRAY"  # the encoding of a text as a change of the text before it
BUFFER_BYTES = 1 << 20  # read at once of a column, which may be larger than the memory


class ParquetTable(Table):
    """A Parquet file, or a folder of such files in the order of their names.

    Needs pyarrow. Memory is bounded, whatever the number of rows is.

    Raises:
        DatasetError: It cannot be read, or the files of a folder differ in their columns.
    """

    def _read_header(self) -> Sequence[str]:
        path = self.path
        self.files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not self.files:
            raise self.error("Is a directory without .parquet files")
        self.footers = [self._open(file).metadata for file in self.files]
        schemas = [self._open(file).schema_arrow for file in self.files]
        self.schema = schemas[0].remove_metadata()
        for file, schema in zip(self.files, schemas):
            if not schema.remove_metadata().equals(self.schema):
                raise DatasetError(
                    f"{file} has other columns than {self.files[0].name}"
                )
        return self.schema.names

    def _open(self, file: Path, footer: Any = None, texts: Sequence[str] = ()) -> Any:
        with readable(file):
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
        for row, batch in self.batches(names or self.schema.names[:1], first, end):
            with named_damage(str(self.path), DatasetError):  # a text is not UTF-8
                values, shared = batch.to_pydict(), {}
            for place in range(batch.num_rows):
                cells = [cell(values[name][place]) for name in names]
                cells = [shared.setdefault(c, c) if len(c) > LONG else c for c in cells]
                yield row + place, row + place + 1, cells

    def batches(
        self, names: Sequence[str], first: int, end: int
    ) -> Iterator[tuple[int, Any]]:
        """Yields (number of the first row, record batch) of the rows from ``first`` to
        before ``end``."""
        columns = list(dict.fromkeys(names))
        for file, footer, groups, start in self._overlapping(first, end):
            with readable(file):
                reader = self._open(file, footer)
                as_stored = self._open(file, footer, shared_texts(footer))
                total = 0
                for group in groups:  # only within one, pyarrow has nested dictionaries
                    sizes = [*unpacked_columns(file, footer, group, columns)]
                    total += sum(size for _, size in sizes)
                    check_unpacked(file, total)
                    # A text may repeat the one before it, without a dictionary.
                    repeated = sum(s for c, s in sizes if DELTA in c.encodings)
                    size = self._rows_at_once(
                        as_stored, group, start, columns, repeated
                    )
                    for batch in reader.iter_batches(size, [group], columns):
                        low = max(first - start, 0)
                        high = min(end - start, batch.num_rows)
                        if low < high:
                            yield start + low, batch.slice(low, high - low)
                        start += batch.num_rows

    def _rows_at_once(
        self, reader: Any, group: int, start: int, names: list[str], repeated: int
    ) -> int:
        """Rows of a group that take at most `CHARACTERS_AT_ONCE`, from a pass in which each
        text is in memory once, as in the file, however many rows name it.

        Args:
            reader: Of `shared_texts`.
            group: Number of the row group.
            start: Number of its first row.
            names: Columns.
            repeated: Bytes of columns of which pyarrow makes no dictionaries.

        Raises:
            DatasetError: A row is too long.
        """
        most = min(ROWS_AT_ONCE, CHARACTERS_AT_ONCE // (1 + repeated))
        longest = 1
        for batch in reader.iter_batches(max(1, most), [group], names):
            sizes = sum(map(characters, batch.columns))
            longest = max(longest, int(sizes.max()))
            self.check_row("row", start + int(sizes.argmax()), longest)
            start += len(sizes)
        return min(ROWS_AT_ONCE, CHARACTERS_AT_ONCE // longest)

    def _overlapping(
        self, first: int, end: int
    ) -> Iterator[tuple[Path, Any, list[int], int]]:
        """Yields (file, footer, row groups with some of these rows, row at which the
        first of them starts)."""
        start = 0
        for file, footer in zip(self.files, self.footers):
            numbers = range(footer.num_row_groups)
            sizes = [footer.row_group(number).num_rows for number in numbers]
            starts = [*itertools.accumulate(sizes, initial=start)]
            groups = [n for n in numbers if starts[n] < end and starts[n + 1] > first]
            if groups:
                yield file, footer, groups, starts[groups[0]]
            start = starts[-1]

    def digest(self, first: int = 0, end: int | None = None) -> str:
        """Hash of the files' names, of their footers, and of the bytes of the row groups
        that hold the rows from ``first`` to before ``end``; of the content for all rows of
        a single file."""
        if end is None:
            if not self.path.is_dir():
                return file_sha256(self.path)
            end = self.count()
        digest = hashlib.sha256()
        for path, footer in zip(self.files, self.footers):
            with open(path, "rb") as file:
                file.seek(-footer.serialized_size - 8, 2)
                digest.update(path.name.encode() + file.read())
        for path, footer, groups, _ in self._overlapping(first, end):
            with open(path, "rb") as file:
                for group in groups:
                    for column in _columns(footer.row_group(group)):
                        size = column.total_compressed_size
                        file.seek(_start(column))
                        while size > 0 and (block := file.read(min(size, 1 << 20))):
                            digest.update(block)
                            size -= len(block)
        return digest.hexdigest()


def _columns(group: Any) -> Iterator[Any]:
    return map(group.column, range(group.num_columns))


def _start(column: Any) -> int:
    """Place of a column's first page."""
    start = column.data_page_offset
    if column.has_dictionary_page:
        start = min(start, column.dictionary_page_offset)
    return start


def unpacked_columns(
    path: Path, footer: Any, group: int, names: Sequence[str]
) -> Iterator[tuple[Any, int]]:
    """Yields (column, bytes that it unpacks to) for columns of a row group; an entry of a
    list counts as at least a byte, and bytes of a fixed length count in full, however
    many of them an encoding says in a few bytes."""
    columns = _columns(footer.row_group(group))
    starts = tuple(f"{name}." for name in names)
    with open_to_read(path) as file:
        for column, leaf in zip(columns, _leaves(footer)):
            if f"{leaf.path}.".startswith(starts):
                start = _start(column)
                end = start + column.total_compressed_size
                size, values = unpacked(file, start, end)
                length = max(leaf.length, int(leaf.max_repetition_level > 0))
                yield column, max(size, values * length)


def _leaves(footer: Any) -> list[Any]:
    return [footer.schema.column(number) for number in range(len(footer.schema))]


def shared_texts(footer: Any) -> list[str]:
    """Columns of text to be read as dictionaries, which pyarrow makes of most encodings.

    Of `DELTA`, it makes none: lists of it, whose entries are not counted before they are
    read, stay here and are refused.
    """
    encodings: dict[str, set[str]] = {}
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in _columns(group):
            encodings.setdefault(column.path_in_schema, set()).update(column.encodings)
    return [
        leaf.path
        for leaf in _leaves(footer)
        if leaf.physical_type == "BYTE_ARRAY"
        and "DELTA_LENGTH_BYTE_ARRAY" not in encodings.get(leaf.path, ())
        and (leaf.max_repetition_level or DELTA not in encodings.get(leaf.path, ()))
    ]


def characters(array: Any) -> NDArray[np.int64]:
    """Characters of each value of an array of pyarrow, about as `cell` writes them: bytes of
    a text, the sum over a list, map or struct, else 1.
    """
    from pyarrow import compute, types

    kind = array.type
    if types.is_dictionary(kind):
        sizes = np.append(characters(array.dictionary), 0)
        return sizes[array.indices.fill_null(len(sizes) - 1)]
    if hasattr(array, "storage"):
        return characters(array.storage)
    if types.is_map(kind):
        ends = np.append(0, np.cumsum(characters(array.values)))
        return np.diff(ends[array.offsets])
    if hasattr(kind, "value_type"):  # a list
        sizes, rows = characters(array.flatten()), compute.list_parent_indices(array)
        return np.bincount(rows, sizes, len(array)).astype(np.int64)
    if types.is_struct(kind):
        return sum(map(characters, array.flatten()), np.ones(len(array), np.int64))
    try:
        return np.asarray(compute.binary_length(array).fill_null(0))
    except NotImplementedError:  # numbers and dates
        return np.ones(len(array), np.int64)


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
