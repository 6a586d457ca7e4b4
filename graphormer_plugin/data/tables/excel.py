"""Excel workbooks of molecules, read with openpyxl."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import open_archive
from graphormer_plugin.data.tables.table import Table, readable


class ExcelTable(Table):
    """The first sheet of a workbook: a header, and a row per molecule. Rows and columns
    without any cell are left out; cells are the values of formulas, as Excel saved them.

    Raises:
        DatasetError: It cannot be read, or openpyxl is missing.
    """

    no_rows = "there are no rows below the header of the first sheet"

    def _read_header(self) -> Sequence[str]:
        lines = [*self._lines()]
        if not lines:
            raise self.error("the first sheet is empty")
        self.used = sorted({place for _, cells in lines for place in cells})
        (_, header), *self.lines = lines
        return [header.get(place, "") for place in self.used]

    def _lines(self) -> Iterator[tuple[int, dict[int, str]]]:
        """Yields (row of the sheet, text of each cell by its column) of rows with cells."""
        try:
            import openpyxl
        except ImportError:
            raise DatasetError(
                f"{self.path}: .xlsx needs openpyxl: pip install "
                "'graphormer-plugin[excel]', or save the table as CSV"
            ) from None
        with readable(self.path), open_archive(self.path, compressed=True):
            book = openpyxl.load_workbook(
                self.path, read_only=True, data_only=True, keep_links=False
            )
            with contextlib.closing(book):
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # some programs write wrong ones
                for number, row in enumerate(sheet.rows, 1):
                    texts = {place: _text(cell) for place, cell in enumerate(row)}
                    if cells := {place: text for place, text in texts.items() if text}:
                        size = sum(map(len, cells.values()))
                        self.check_row("row", number, size)
                        yield number, cells

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """See `Table.rows`; lines are the rows of the sheet."""
        places = [self.used[self.places[name]] for name in columns]
        for row, (line, cells) in enumerate(self.lines):
            yield row, line, [cells.get(place, "") for place in places]


def _text(cell: Any) -> str:
    """A cell as pandas reads it as text; whole numbers have no decimal point."""
    value = cell.value
    if value is None or cell.data_type == "e":  # an error, such as #DIV/0!
        return ""
    whole = cell.data_type == "n" and value == int(value)
    return str(int(value) if whole else value)
