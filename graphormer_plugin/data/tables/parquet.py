"""Parquet files of molecules: reading with bounded memory, and writing of predictions."""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.files import atomic_write, file_sha256, text_sha256
from graphormer_plugin.data.tables.table import Lines, Table, readable

# Our choice: rows of a table with 200 columns take some 100 MB as Python's objects.
ROWS_AT_ONCE = 16_384
BUFFER_BYTES = 1 << 20  # read at once of a column, which may be larger than the memory


class ParquetTable(Table):
    """A Parquet file, or a folder of such files with equal columns, in the order of their
    names. Needs pyarrow. Memory does not grow with the number of rows."""

    def _read_header(self) -> Sequence[str]:
        path = self.path
        self.files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not self.files:
            raise self.error("Is a directory without .parquet files")
        readers = [self._open(file) for file in self.files]
        self.footers = [reader.metadata for reader in readers]
        self.schema = readers[0].schema_arrow.remove_metadata()
        for file, reader in zip(self.files, readers):
            if not reader.schema_arrow.remove_metadata().equals(self.schema):
                raise DatasetError(
                    f"{file} has other columns than {self.files[0].name}"
                )
        return self.schema.names

    def _open(self, file: Path, footer: Any = None) -> Any:
        with readable(file):
            return pyarrow_parquet().ParquetFile(
                file, metadata=footer, buffer_size=BUFFER_BYTES, pre_buffer=False
            )

    def count(self) -> int:
        """Number of rows."""
        return sum(footer.num_rows for footer in self.footers)

    def part(self, columns: Sequence[str], first: int, end: int | None) -> Lines:
        """See `Table.part`."""
        end = self.count() if end is None else end
        names = [self.schema.names[self.places[name]] for name in columns]
        for row, batch in self.batches(names or self.schema.names[:1], first, end):
            with named_damage(str(self.path), DatasetError):  # a text is not UTF-8
                values = batch.to_pydict()
            for index in range(batch.num_rows):
                cells = [cell(values[name][index]) for name in names]
                yield row + index + 1, cells

    def batches(
        self, names: Sequence[str], first: int, end: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number of the first row, record batch) of the rows from ``first`` to
        before ``end``."""
        columns = list(dict.fromkeys(names))
        start = 0
        for file, footer in zip(self.files, self.footers):
            for group in range(footer.num_row_groups):
                rows = footer.row_group(group).num_rows
                if start >= end or start + rows <= first:
                    start += rows
                    continue
                with readable(file):
                    reader = self._open(file, footer)
                    for batch in reader.iter_batches(ROWS_AT_ONCE, [group], columns):
                        low = max(first - start, 0)
                        high = min(end - start, batch.num_rows)
                        if low < high:
                            yield start + low, batch.slice(low, high - low)
                        start += batch.num_rows

    @cached_property
    def digest(self) -> str:
        """Hash of the file, or of the names and hashes of the files of a folder."""
        if not self.path.is_dir():
            return file_sha256(self.path)
        files = [(file.name, file_sha256(file)) for file in self.files]
        return text_sha256(repr(files))


def cell(value: Any) -> str:
    """A value of a Parquet file as text: truth values are 1 and 0."""
    if value is None or isinstance(value, float) and math.isnan(value):
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def pyarrow_parquet() -> Any:
    """The module ``pyarrow.parquet``."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DatasetError(
            "Parquet files need pyarrow: pip install 'graphormer-plugin[parquet]'"
        ) from None
    return pyarrow.parquet


def array_of(cells: Sequence[Any], is_number: bool) -> Any:
    """Predicted cells as an array of pyarrow; an empty cell is null."""
    import pyarrow

    if is_number:
        numbers = [float(text) if text else None for text in cells]
        return pyarrow.array(numbers, pyarrow.float64())
    return pyarrow.array([str(text) or None for text in cells], pyarrow.string())


def write_parquet(
    output: Path,
    rows: Iterator[list[Any]],
    table: Table,
    numbers: Collection[str],
    first: int,
    end: int,
) -> None:
    """Parquet of rows; see `formats.write_table`."""
    import pyarrow

    parquet = pyarrow_parquet()
    width = len(table.header)
    new = [(name, name in numbers) for name in next(rows)[width:]]
    typed = isinstance(table, ParquetTable)
    text = [pyarrow.field(name, pyarrow.string()) for name in table.header]
    schema = pyarrow.schema(
        [
            *(table.schema if typed else text),
            *(pyarrow.field(name, array_of([], of).type) for name, of in new),
        ]
    )

    def _pieces() -> Iterator[tuple[list[Any], list[list[Any]]]]:
        if typed:
            for _, batch in table.batches(table.schema.names, first, end):
                yield batch.columns, list(itertools.islice(rows, batch.num_rows))
            return
        while cells := list(itertools.islice(rows, ROWS_AT_ONCE)):
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
