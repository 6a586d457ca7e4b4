"""Lines of CSV files that every reader splits into the same rows."""

import csv
import io

import pandas

from graphormer_plugin.data.tables.csv_lines import write_csv, write_lines
from graphormer_plugin.data.tables.table import CsvTable


def test_ends_of_lines_in_cells(tmp_path):
    rows = [["smiles", "note"], ["CCO", "old\rmac"], ["\rC", "a\nb\r\nc"], ["N", ""]]
    path = tmp_path / "out.csv"
    write_csv(path, rows)
    assert path.read_bytes().endswith(b'"a\nb\r\nc"\nN,\n')
    assert [cells for *_, cells in CsvTable(path).rows(rows[0])] == rows[1:]
    frame = pandas.read_csv(path, keep_default_na=False)
    assert frame.values.tolist() == rows[1:]


def test_quotes_nothing_more():
    rows = [["a b", 'say "x"', ""], [1.5, None, "1,2"], ["tab\t", "é", "x"], [""], []]
    for delimiter in ",\t":
        files = io.StringIO(newline=""), io.StringIO(newline="")
        write_lines(files[0], rows, delimiter)
        csv.writer(files[1], delimiter=delimiter, lineterminator="\n").writerows(rows)
        assert files[0].getvalue() == files[1].getvalue()
