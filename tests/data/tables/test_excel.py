"""Excel workbooks of molecules."""

import importlib.util

import openpyxl
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.tables.formats import is_table, open_table, stem
from graphormer_plugin.data.tables.options import DatasetOptions
from support.stores import csv_dataset

ROWS = [["smiles", "y", None, "n"], ["CCO", 1.5, None, 1], [None] * 4]
ROWS += [["CN", "#N/A", None, 20], ["C", -0.25, None, 3]]


@pytest.fixture
def write(tmp_path):
    """Function: a workbook of rows, and a second sheet."""

    def write(rows, name="table.xlsx", merged=()):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for area in merged:
            book.active.merge_cells(area)
        book.create_sheet().append(["other"])
        book.save(tmp_path / name)
        return tmp_path / name

    return write


def test_the_first_sheet(write):
    path = write(ROWS)
    table = open_table(path)
    assert is_table(path) and stem(path) == "table"
    assert table.header == ["smiles", "y", "n"]
    rows = [*table.rows(["n"], "smiles")]
    assert rows == [(0, 2, "CCO", ["1"]), (1, 4, "CN", ["20"]), (2, 5, "C", ["3"])]
    source = csv_dataset(DatasetOptions(str(path), target_columns=("y",)))
    assert source.targets[[0, 2], 0].tolist() == [1.5, -0.25]
    assert source.targets[1, 0] != source.targets[1, 0]


def test_not_readable(write, tmp_path, monkeypatch):
    with pytest.raises(DatasetError, match="the first sheet is empty"):
        open_table(write([]))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DatasetError, match=r"pip install 'graphormer-plugin\[excel\]'"):
        open_table(tmp_path / "table.xlsx")


def test_merged_cells(write):
    """A molecule over two rows, one label of two targets, and a title."""
    rows = [["A title", None, None], ["smiles", "a", "b"], ["CCO", 1, 2], [None, 3, 4]]
    rows += [["CN", 5, None]]
    table = open_table(write(rows, merged=["A1:C1", "A3:A4", "B5:C5"]))
    assert [cells for *_, cells in table.rows(["smiles", "a", "b"])] == [
        *(["CCO", "1", "2"], ["CCO", "3", "4"], ["CN", "5", "5"])
    ]
    (text,) = [note for note in table.notes if "merged" in note]
    assert text == "2 merged cells count for all rows and columns that they cover"


def test_merged_headings(write):
    rows = [["smiles", "IC50", None], [None, "kinase A", "kinase B"], ["CCO", 1, 2]]
    for merged in (["B1:C1"], ["A1:A2", "B1:C1"]):
        table = open_table(write(rows, merged=merged))
        assert table.header == ["smiles", "IC50 kinase A", "IC50 kinase B"]
        assert [*table.rows(["IC50 kinase B"], "smiles")] == [(0, 3, "CCO", ["2"])]
