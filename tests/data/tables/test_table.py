"""CSV files as programs write them: separators, decimal commas, encodings, empty rows."""

import math

import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.sources.csv_file import read_labels
from graphormer_plugin.data.tables.cells import ParsedColumn, point
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.tables.rows import whole_columns
from support.tables import write_file

LABELS = ["1,5", "-0,25", "2", "1,5e1", ""]
NUMBERS = [1.5, -0.25, 2, 15]
MINUS = "\u2212"


@pytest.fixture
def table(tmp_path):
    """Function: the table of a text."""
    return lambda text: open_table(write_file(tmp_path / "table.csv", text))


@pytest.fixture
def read(tmp_path):
    """Function: labels of a file of SMILES and cells, its kind and its warnings."""

    def read(lines, name="table.csv", encoding="utf-8"):
        path = write_file(tmp_path / name, "\n".join(lines).encode(encoding))
        options = DatasetOptions(str(path), target_columns=("y",))
        found = read_labels(open_table(path), options, explore=True, kinds=())
        return found.source.targets[:, 0].tolist(), *found.source.kind, found.warnings

    return read


def lines(cells, separator=";", name="y"):
    rows = [f"{'C' * at}O{separator}{cell}" for at, cell in enumerate(cells)]
    return [f"smiles{separator}{name}", *rows]


@pytest.mark.parametrize(
    "separator, word", [(";", "semicolons"), ("\t", "tabs"), (",", ""), ("|", "bars")]
)
def test_separators_and_decimal_commas(read, separator, word):
    cells = [f'"{cell}"' if separator == "," else cell for cell in LABELS]
    values, kind, warnings = read(lines(cells, separator))
    assert values[:4] == NUMBERS and values[4] != values[4] and kind == "regression"
    expected = [f"cells are separated by {word}"] if word else []
    assert warnings == [*expected, "column 'y': 1,5 is read as 1.5"]


def test_the_minus_of_typeset_tables(read):
    values, kind, warnings = read(lines([f"{MINUS}1.25", f"1e{MINUS}3", "2"], ","))
    assert values == [-1.25, 1e-3, 2] and kind == "regression" and warnings == []
    assert read(lines([f"{MINUS}1,25", "2", "3"]))[0] == [-1.25, 2, 3]
    column = ParsedColumn("y", censored=True)
    column.add(f"<{MINUS}2")
    assert (column.values[0], column.bounds[0]) == (-2, -math.inf)


def test_words_before_decimal_commas(table):
    """A wrong cell does not change how the others are read, and few words are kept."""
    text = "\n".join(lines(["ND", "2,5", "bad", "3,5"]))
    column = whole_columns(table(text), ["y"])["y"]
    assert column.number("2,5") == 2.5 and [*column.words] == ["ND"]


def test_quoted_headers_and_other_names(read):
    values, _, (note,) = read(['"smiles";"y"', '"CO";"1"', '"C";"2"', '"CN";"3"'])
    assert values == [1, 2, 3] and note == "cells are separated by semicolons"
    values, _, (note,) = read(lines(["1", "2", "3"], ","), "table.tsv")
    assert values == [1, 2, 3] and note == "cells are separated by commas"
    assert read(lines(["1", "2", "3"], "\t"), "table.tsv")[2] == []


@pytest.mark.parametrize(
    "separator, cells",
    [
        ("\t", ["1,234", "12,500", "3"]),  # thousands, perhaps
        (";", ["1,5", "2.5", "3"]),  # both
        (";", ["1.234,5", "2,5", "3"]),
        (";", ["1.234.567", "2", "3"]),
    ],
)
def test_numbers_that_are_not_clear(read, separator, cells):
    with pytest.raises(DatasetError, match="write numbers as 1234.5, without"):
        read(lines(cells * 3, separator))


def test_points_that_may_be_thousands(read):
    """A cell with other decimals, or a larger number, tells that they are decimal."""
    cells = ["1.234", "12.500", "3"] * 3
    with pytest.raises(DatasetError, match="'y': is 1.234 1234, or 1,234"):
        read(lines(cells, ";"))
    assert read(lines(cells, ","))[0] == [1.234, 12.5, 3] * 3
    for known in ("0.5", "1.23", "1234"):
        assert read(lines([*cells, known], ";"))[0] == [*map(float, [*cells, known])]
    for cell in (">1.234", "1.234-2.500", "1.234…2.500"):
        column = ParsedColumn("y", censored=True)
        column.add(cell)
        assert column.thousands == "1.234"


def test_three_decimals_of_a_semicolon(read):
    assert read(lines(["1,234", "12,500", "3"]))[0] == [1.234, 12.5, 3]
    assert [point(cell) for cell in ("7,4", "1,2,3", "a,b")] == ["7.4", "1,2,3", "a,b"]


def test_other_encodings(read):
    text = lines(["1", "2", "3"], ",", "y,Löslichkeit")
    text = [text[0], *(f"{line},µM" for line in text[1:])]
    assert read(text)[2] == []
    for encoding in ("latin-1", "cp1252"):
        values, _, (note,) = read(text, encoding=encoding)
        assert values == [1, 2, 3]
        assert note == "text that is not UTF-8 is read as Windows-1252"
    with pytest.raises(DatasetError, match="line 1 is not UTF-8 text; save it as CSV"):
        read(text, encoding="utf-16")


def test_rows_of_nothing(table):
    rows = table("smiles,y\nCO,1\n,\n  \n , \nC,2\n\n,\n").rows(["smiles", "y"])
    assert [*rows] == [(0, 2, None, ["CO", "1"]), (1, 6, None, ["C", "2"])]
    # as pandas writes a missing SMILES
    assert table('smiles\nCO\n""\nC\n').count() == 3


@pytest.mark.parametrize("separator", ";,|")
def test_a_line_that_names_the_separator(read, separator):
    """Excel writes such a line."""
    text = [f"sep={separator}", *lines(["1", "2", "3"], separator)]
    assert read(text)[0] == [1, 2, 3]


def test_columns_of_one_name(table):
    """BindingDB repeats the columns of its chains."""
    rows = "".join(f"{'C' * n},{n / 2},a{n},b{n}\n" for n in range(1, 6))
    table = table("smiles,y,chain,chain\n" + rows)
    assert table.header == ["smiles", "y", "chain", "chain_4"]
    assert next(table.rows(["chain", "chain_4"])).cells == ["a1", "b1"]
    for asked in (("y",), ("all",), ()):
        options = DatasetOptions("t.csv", target_columns=asked, split="random")
        labels = read_labels(table, options, explore=True).source.targets
        assert labels[:, 0].tolist() == [0.5, 1, 1.5, 2, 2.5]
    for name in ("chain", "chain_4"):
        with pytest.raises(DatasetError, match=f"columns have the name '{name}'"):
            table.require(name)


def test_a_column_of_inchi(table):
    text = "InChIKey,Standard InChI,y\nX,InChI=1S/CH4/h1H4,1\n"
    assert table(text).find_smiles("") == "Standard InChI"
