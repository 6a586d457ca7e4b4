"""Excel workbooks of molecules."""

import importlib.util
from collections.abc import Sequence

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.tables.table import (
    Rows,
    Table,
    readable,
    rows_above_header,
)


class ExcelTable(Table):
    """The first sheet of a workbook: a header, and a row per molecule. Rows and columns
    without any cell are left out; cells are the values of formulas, as Excel saved them.
    """

    no_rows = "there are no rows below the header of the first sheet"

    def _read_header(self) -> Sequence[str]:
        if importlib.util.find_spec("openpyxl") is None:
            raise DatasetError(
                f"{self.path}: .xlsx needs openpyxl: pip install "
                "'graphormer-plugin[excel]', or save the table as CSV"
            )
        import pandas  # a third of a second that no other table needs

        with readable(self.path):
            sheet = pandas.read_excel(
                self.path, header=None, dtype=str, na_filter=False
            )
        sheet = sheet.fillna("")  # an error, such as #DIV/0!, is missing in any case
        used = (sheet != "").to_numpy()
        sheet = sheet.loc[used.any(1), used.any(0)]
        if sheet.empty:
            raise self.error("the first sheet is empty")
        rows = sheet.to_numpy().tolist()
        above = rows_above_header(rows)
        self.note_titles(above)
        self.lines = [*zip(sheet.index + 1, rows)][above + 1 :]
        return rows[above]

    def rows(self, columns: Sequence[str]) -> Rows:
        """See `Table.rows`; lines are the rows of the sheet."""
        places = [self.places[name] for name in columns]
        for row, (line, cells) in enumerate(self.lines):
            yield row, line, [cells[place] for place in places]
