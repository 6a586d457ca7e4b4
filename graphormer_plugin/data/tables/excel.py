"""Excel workbooks of molecules, read with pandas and openpyxl."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import open_archive
from graphormer_plugin.data.tables.table import Table, readable


class ExcelTable(Table):
    """The first sheet of a workbook: a header, and a row per molecule. Rows and columns
    without any cell are left out; cells are the values of formulas, as Excel saved them.

    Args:
        path: File.

    Raises:
        DatasetError: It cannot be read, or pandas or openpyxl is missing.
    """

    no_rows = "there are no rows below the header of the first sheet"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[tuple[int, list[str]]] = []
        frame = self._frame().fillna("")
        frame = frame.loc[(frame != "").any(axis=1), (frame != "").any(axis=0)]
        if frame.empty:
            raise self.error("the first sheet is empty")
        lines = zip((frame.index + 1).tolist(), frame.values.tolist(), strict=True)
        (_, header), *self.lines = lines
        super().__init__(path, header)

    def _frame(self) -> Any:
        """Cells as text, empty where there are none."""
        try:
            import openpyxl  # noqa: F401
            import pandas
        except ImportError:
            raise DatasetError(
                f"{self.path}: .xlsx needs openpyxl: pip install "
                "'graphormer-plugin[excel]', or save the table as CSV"
            ) from None
        with readable(self.path), open_archive(self.path, compressed=True):
            return pandas.read_excel(self.path, header=None, dtype=str, na_filter=False)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """See `Table.rows`; lines are the rows of the sheet."""
        places = [self.places[name] for name in columns]
        for row, (line, cells) in enumerate(self.lines):
            yield row, line, [cells[place] for place in places]
