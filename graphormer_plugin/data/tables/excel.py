"""Excel workbooks of molecules."""

import importlib.util
from collections.abc import Sequence

from graphormer_plugin.data.errors import DatasetError, counted
from graphormer_plugin.data.tables.table import (
    Lines,
    Table,
    readable,
    rows_above_header,
)


class ExcelTable(Table):
    """The first sheet of a workbook: a header, and a row per molecule. Rows and columns
    without any cell are left out; cells are the values of formulas, as Excel saved them. A
    merged cell is each of its cells; below merged headings, the next row ends the names.
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
            # Only whole workbooks know their merged cells.
            whole = {"read_only": False}
            with pandas.ExcelFile(
                self.path, engine="openpyxl", engine_kwargs=whole
            ) as book:
                sheet = pandas.read_excel(book, header=None, dtype=str, na_filter=False)
                merged = [*book.book.worksheets[0].merged_cells.ranges]
        sheet = sheet.fillna("")  # an error, such as #DIV/0!, is missing in any case
        for area in merged:  # a title may be as wide as the table
            top = area.min_row - 1
            left = area.min_col - 1
            sheet.iloc[top : area.max_row, left] = sheet.iat[top, left]
        used = (sheet != "").to_numpy()
        filled = sheet.index[used.any(1)]
        if not len(filled):
            raise self.error("the first sheet is empty")
        above = rows_above_header(sheet.loc[filled].to_numpy().tolist())
        self.note_titles(above)
        place = filled[above]
        below = [area for area in merged if area.max_row > place]
        for area in below:
            top = area.min_row - 1
            left = area.min_col - 1
            sheet.iloc[top : area.max_row, left : area.max_col] = sheet.iat[top, left]
        if below:
            cells = counted(len(below), "merged cell", "count")
            self.notes[f"{cells} for all rows and columns that they cover"] = None
        rows = sheet.loc[filled, used.any(0)]
        header = rows.loc[place].tolist()
        first = above + 1
        if any(
            area.min_row - 1 == place and area.size["columns"] > 1 for area in below
        ):
            names = zip(header, rows.iloc[first].tolist(), strict=True)
            header = [" ".join(dict.fromkeys(pair)).strip() for pair in names]
            first += 1
        rows = rows.iloc[first:]
        self._rows = [*zip(rows.index + 1, rows.to_numpy().tolist())]
        return header

    def lines(self, columns: Sequence[str]) -> Lines:
        """See `Table.lines`; they are the rows of the sheet."""
        places = [self.places[name] for name in columns]
        for line, cells in self._rows:
            yield line, [cells[place] for place in places]
