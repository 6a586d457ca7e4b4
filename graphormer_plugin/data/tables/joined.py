"""Several tables of molecules that are read as one."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.table import Table


class JoinedTable(Table):
    """The rows of tables, one table after the other, with the columns of the first.

    Args:
        tables: Two or more; the others may have more columns, in any order.

    Raises:
        DatasetError: A column is missing.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        first, *others = tables
        for table in others:
            if lacking := [name for name in first.header if name not in table.places]:
                raise table.error(
                    f"no column {shown(lacking[0])}, which {first.path} has"
                )
        super().__init__(first.path, first.header)
        self.no_labels = first.no_labels
        self.decimal_comma = all(table.decimal_comma for table in tables)
        self.tables = tables
        self.ends: list[int] = []  # row after the last of each table, once it is read

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """See `Table.rows`; lines are counted in each file."""
        self.ends, row = [], -1
        for table in self.tables:
            begin = row
            for row, (_, line, cells) in enumerate(table.rows(columns), begin + 1):
                yield row, line, cells
            if row == begin:
                raise table.error(table.no_rows)
            self.ends.append(row + 1)
            self.notes.update((f"{table.path}: {note}", None) for note in table.notes)

    def where(self, row: int) -> tuple[Table, int]:
        """See `Table.where`."""
        number = bisect_right(self.ends, row)
        return self.tables[number], row - (self.ends[number - 1] if number else 0)

    def rows_of_tables(self) -> list[np.ndarray]:
        """Numbers of the rows of each table, once they are read."""
        begins = [0, *self.ends]
        return [np.arange(begin, end) for begin, end in zip(begins, self.ends)]
