"""The molecules of an experiment."""

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.tables.table import CsvTable
from graphormer_plugin.experiment.data_warnings import warnings_of
from graphormer_plugin.experiment.label_statistics import label_table
from graphormer_plugin.experiment.labelled_molecules import read_table
from graphormer_plugin.experiment.settings import Settings
from graphormer_plugin.experiment.split_tables import (
    SPLITS,
    labelled_splits,
    write_molecules,
)
from support.labelled_molecules import HEADER, ROWS, settings, splits_of
from support.stores import csv_dataset

ALCOHOLS = [f"{'C' * k}O" for k in range(1, 9)]


@pytest.fixture
def read(write):
    """Function: read a table of rows with the names of a header."""

    def read(rows, header, **options):
        return read_table(settings(write(rows, header.split()), **options))

    return read


def column(*cells):
    """Rows of alcohols with these cells each, in a column or several."""
    lines = [cell if isinstance(cell, tuple) else (cell,) for cell in cells]
    return [[smiles, *line] for smiles, line in zip(ALCOHOLS, lines)]


def without(name):
    place = HEADER.index(name)
    return [
        [cell for at, cell in enumerate(row) if at != place] for row in [*ROWS, HEADER]
    ]


def test_the_only_column_of_numbers_is_the_target(write):
    *rows, header = without("active")
    table = read_table(settings(write(rows, header)))
    assert (table.smiles_column, table.targets.names) == ("Smiles", ["value"])
    assert table.targets.kind == "regression" and len(table) == 7
    assert table.extra_names == ["name", "part"]
    assert table.extras[1] == ["ring", "train"]
    assert table.scaffolds[:4] == ["", "C1CC1", "", "c1ccccc1"]


def test_classes_are_found(write):
    *rows, header = without("value")
    table = read_table(settings(write(rows, header)))
    assert (table.targets.names, table.targets.kind) == (["active"], "binary")
    asked = {"target_columns": ("active",), "target_kind": "regression"}
    assert read_table(settings(write(), **asked)).targets.kind == "regression"


@pytest.mark.parametrize("name, label", [("compound_id", "x"), ("n", "y"), ("", "y")])
def test_a_name_or_number_of_a_molecule_is_no_target(write, name, label):
    name = name or "Unnamed: 0"
    rows = [[k, f"id{k}", "C" * k, word] for k, word in enumerate("abab", 1)]
    header = [name, "Name", "smiles", label]
    with pytest.raises(DatasetError, match="which columns are targets"):
        read_table(settings(write(rows, header)))
    numbers = [[*row[:3], at % 3] for at, row in enumerate(rows)]
    assert read_table(settings(write(numbers, header))).targets.names == [label]
    if name != "n":
        alone = write([row[:3:2] for row in rows], [name, "smiles"])
        with pytest.raises(DatasetError, match=f"other column, {name!r}, looks like"):
            read_table(settings(alone))


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "which columns are targets"),
        (
            {"target_columns": ("value", "active")},
            "only 0 and 1 in active, other numbers in value: train",
        ),
        ({"split": "column:fold"}, "no column 'fold', the header has"),
        ({"weight_column": "fold"}, "no column 'fold', the header has"),
    ],
)
def test_columns_that_are_not_there_or_not_clear(write, options, message):
    with pytest.raises(DatasetError, match=message):
        read_table(settings(write(), **options))


@pytest.mark.parametrize(
    "asked, split",
    [
        ({}, "column:SPLIT"),
        ({"replicates": 2}, "column:SPLIT"),
        ({"split": "column:SPLIT"}, "column:SPLIT"),
        ({"split": "scaffold"}, "scaffold"),
        ({"split": "random"}, "random"),
        ({"folds": 3}, "scaffold"),
        ({"folds": 3, "split": "random"}, "random"),
        ({"ratios": (0.8, 0.1, 0.1)}, "scaffold"),  # the default, but asked for
    ],
)
def test_a_column_called_split(write, asked, split):
    rows = [["C" * k + "O", k, part] for k, part in enumerate(["train"] * 8, 1)]
    rows += [["CN", 1.5, "valid"], ["CCN", 2.5, "test"]]
    asked = settings(write(rows, ["smiles", "y", "SPLIT"]), **asked)
    table = read_table(asked)
    assert (table.split, table.targets.names) == (split, ["y"])
    others = asked.folds or asked.ratios
    how = " without --folds, --ratios and --test-file" if others else ""
    expected = [f"the column SPLIT is not used; --split column:SPLIT{how} takes it"]
    if split == "column:SPLIT":
        text = f"all replicates have the split of {split}: they differ in their seeds"
        expected = [text] * (asked.replicates > 1)
        valid = [found["valid"].tolist() for found in splits_of(table, asked)]
        assert valid == [[8]] * asked.replicates
    assert warnings_of(table, [], asked) == expected


@pytest.mark.parametrize(
    "asked",
    [
        {"target_columns": ("split",)},
        {"target_columns": ("y",), "weight_column": "split"},
        {"target_columns": ("y",), "extra_columns": ("y2", "split")},
    ],
)
def test_a_column_called_split_that_is_named_as_something_else(write, asked):
    rows = column(*((k, k % 4, k % 5) for k in range(1, 9)))
    asked = settings(write(rows, ["smiles", "y", "y2", "split"]), **asked)
    table = read_table(asked)
    assert (table.split, table.targets.names) == ("scaffold", [*asked.target_columns])
    assert warnings_of(table, [], asked) == []


def test_a_column_called_split_is_a_target_only_by_its_name(read):
    rows = column(*((k / 4, k % 5, k % 3, 9 - k) for k in range(8)))
    numbering = "--target-columns all leaves out 'n', which only numbers the rows"
    rows = [[*row, number] for number, row in enumerate(rows)]
    for asked, names in {
        "all": ["y", "s", "t"],
        "[sS]*": ["s"],
        "Split": ["Split"],
    }.items():
        table = read(rows, "smiles y Split s t n", target_columns=(asked,), folds=3)
        assert table.targets.names == names
        warned = [text[: len(numbering)] for text in table.warned]
        assert warned == [numbering] * (asked == "all")
    names = read(rows, "split y Split name id n", smiles_column="split", folds=3)
    assert names.targets.names == ["y"] and names.smiles == ALCOHOLS


def test_a_file_of_smiles_has_no_labels(tmp_path):
    path = str(tmp_path / "few.smi")
    (tmp_path / "few.smi").write_text("CCO 241\nC 297\n")
    message = "few.smi: .* no labels; save them as CSV"
    with pytest.raises(DatasetError, match=message):
        read_table(settings(path))
    with pytest.raises(DatasetError, match=message):
        csv_dataset(DatasetOptions(path))


def test_labels_that_are_missing(write):
    rows = column("1.5", ">10", "ND", "2.5", "1", "0")
    path = write(rows, ["smiles", "y"])

    def read(*words):
        asked = settings(path, missing_labels=words)
        table = read_table(asked)
        return table, warnings_of(table, [], asked)

    table, texts = read("ND", ">*")
    assert (table.targets.names, table.targets.kind) == (["y"], "regression")
    known = [1.5, np.nan, np.nan, 2.5, 1, 0]
    assert np.array_equal(table.labels[:, 0], known, equal_nan=True)
    (text,) = texts
    assert text.startswith("2 molecules without a label take no part; graphormer-pr")
    assert [table.label_cells(row)[0] for row in (0, 1, 2)] == ["1.5", "", ""]
    _, texts = read("ND", ">*", "nd*", "-999")
    assert texts[:-1] == ["--missing-labels '-999' fits no cell of y"]


def test_bounds(read, tmp_path):
    rows = column(("10", 1), (">1000", 2), ("", 3), ("<0.1", 4), ("5", 5), ("7", 5))
    given = {"target_columns": ("y",), "log_targets": ("y",), "censored": True}
    table = read([[*row, "x"] for row in rows], "smiles y z name", **given)
    assert table.bounds[:, 0].tolist() == [0, 1, 0, -1, 0, 0]
    assert table.labels[1, 0] == 3 and np.isnan(table.exact_labels[[1, 2, 3], 0]).all()
    cells = [table.label_cells(row, in_unit=True)[0] for row in range(4)]
    assert cells == ["10", ">1000", "", "<0.1"]
    assert [table.label_cells(row)[0] for row in (1, 3)] == [">3.0", "<-1.0"]
    assert "2 labels are bounds, which no metric counts" in table.warned
    split = {"train": np.arange(4), "test": np.array([1, 4])}
    assert label_table(table, split | {"valid": np.array([3])})[1][2] == "0"
    with pytest.raises(DatasetError, match="no exact label in split valid"):
        labelled_splits(table, [split | {"valid": np.array([3])}], Settings("a", "b"))
    scored = table.scored_labels(split, "test")
    assert np.isnan(scored[0, 0]) and scored[1, 0] == np.log10(5)
    trained = [table.trained_labels(split, bounds) for bounds in (False, True)]
    assert [(~np.isnan(labels)).sum() for labels in trained] == [1, 3]
    write_molecules(tmp_path, table, [])
    path = str(tmp_path / "molecules.csv")
    again = csv_dataset(
        DatasetOptions(path, target_columns="log10 y", split="random", censored=True)
    )
    assert np.array_equal(again.bounds, table.bounds)
    assert np.array_equal(again.targets, table.labels, equal_nan=True)


def test_words_of_a_missing_label(read):
    rows = column("yes", "no", "?", "no", "yes", "no")
    with pytest.raises(DatasetError, match="column 'y' has 3 words .*--missing-labels"):
        read(rows, "smiles y", target_columns=("y",))
    table = read(rows, "smiles y", target_columns=("y",), missing_labels=("?",))
    assert table.targets.kind == "binary"
    assert table.targets.class_names == [["no", "yes"]]
    assert np.flatnonzero(np.isnan(table.labels[:, 0])).tolist() == [2]


def test_words_of_more_than_two_classes(read):
    rows = column(*["low", "mid", "high"] * 2)
    message = "column 'level' has 3 words .high, low, mid.; .*--target-kind multiclass"
    with pytest.raises(DatasetError, match=message):
        read(rows, "smiles level")
    assert read(rows, "smiles level", target_kind="multiclass").targets.num_classes == 3
    with pytest.raises(ValueError, match="class 999, but only 3 different labels"):
        read(column(*[0, 1, 999] * 2), "smiles y", target_kind="multiclass")


OPEN, NOTHING = ["C1CC", "open", "1", "train", "0"], ["", "", "", "test", ""]


def test_molecules_that_cannot_be_parsed(write):
    path = write([*ROWS, OPEN])
    with pytest.raises(DatasetError, match="1 molecule cannot .*row 7, 'C1CC': .*ring"):
        read_table(settings(path, target_columns=("value",)))
    path = write([*ROWS, OPEN, NOTHING])
    with pytest.raises(DatasetError, match="row 8 .*no SMILES"):
        read_table(settings(path, target_columns=("value",)))
    asked = settings(
        path, target_columns=("value",), skip_invalid=True, split="column:part"
    )
    table = read_table(asked)
    assert len(table) == len(table.extras) == 7
    assert warnings_of(table, [], asked)[1:] == [
        "left out 2 rows that cannot be parsed, listed in invalid.csv"
    ]


def test_the_molecules_are_what_is_wrong(read):
    """And not their targets, which are not named."""
    rows = [["CO", "a", "1"], ["CCO", "b", "2"], ["", "none", "1"]]
    with pytest.raises(DatasetError, match="row 2 .*no SMILES; --skip-invalid"):
        read(rows, "smiles name y")
    assert read(rows, "smiles name y", skip_invalid=True).targets.names == ["y"]
    message = "none of 3 molecules can be parsed .first: row 0, .*; correct the source$"
    with pytest.raises(DatasetError, match=message):
        read([["C1CC", label] for label in "123"], "smiles y", skip_invalid=True)
    message = r"row 0, 'C{80}'\.\.\.: 1,001 atoms, above --max-atoms 1000\)"
    with pytest.raises(DatasetError, match=message):
        read([["C" * 1001, "1"], ["CO", "2"]], "smiles y")


@pytest.fixture
def words(write):
    """Function: read a table of words with one target."""
    rows = [
        ["CCO.Cl", "active", "sweet", "2"],
        ["C1CC1CC", "inactive", "bitter", "0"],
        ["OCC", "active", "", "1.5"],
        ["c1ccccc1C", "", "sour", "1"],
    ]
    path = write(rows, ["smiles", "activity", "taste", "trust"])

    def read(target, **options):
        return read_table(settings(path, target_columns=(target,), **options))

    return read


def test_words_are_classes(words, tmp_path):
    """Two words by their meaning, more only if they are asked for."""
    table = words("activity")
    assert table.targets.kind == "binary"
    assert table.targets.class_names == [["inactive", "active"]]
    assert table.labels[:3, 0].tolist() == [1, 0, 1]
    with pytest.raises(DatasetError, match="column 'taste': 'sweet' is not a number"):
        words("taste")
    table = words("taste", target_kind="multiclass")
    assert table.targets.class_names == [["bitter", "sour", "sweet"]]
    table = words("taste", class_names=("sweet", "sour", "bitter", "umami"))
    assert (table.targets.kind, table.targets.num_classes) == ("multiclass", 4)
    write_molecules(tmp_path, table, [{name: np.arange(4) for name in SPLITS}])
    rows = list(CsvTable(tmp_path / "molecules.csv").rows(["taste"]))
    assert [cells for *_, cells in rows] == [["sweet"], ["bitter"], [""], ["sour"]]
    with pytest.raises(DatasetError, match="column 'trust': 1.5 is not a label"):
        words("trust", target_kind="multiclass")


def test_weights_and_fragments(words):
    table = words("activity", weight_column="trust")
    assert table.weights.tolist() == [2, 0, 1.5, 1] and len({*table.keys}) == 4
    table = words("activity", largest_fragment=True, class_weights="balanced")
    assert table.weights is None and len({*table.keys}) == 3
    assert table.smiles[0] == "CCO.Cl"


@pytest.mark.parametrize(
    "target, weights, message",
    [("activity", "1,2,3", "expected 2 numbers"), ("trust", "balanced", "are numbers")],
)
def test_wrong_weights_of_classes(words, target, weights, message):
    with pytest.raises(ValueError, match=f"--class-weights {weights}: .*{message}"):
        words(target, class_weights=weights)


def test_registry_numbers_are_no_endpoint(read):
    """Different whole numbers in a row, in any order; measured values have ties."""
    registry = [f"{1000 + 3 * k % 31}" for k in range(24)]
    rows = [[f"{'C' * (k + 1)}O", number, k // 2] for k, number in enumerate(registry)]
    asked = {"target_columns": ("reg", "y")}
    found = read(rows, "smiles reg y", **asked)
    assert found.targets.names == ["y"] and found.extra_names == ["reg"]
    assert [cell for (cell,) in found.extras] == [f"{number}.0" for number in registry]
    assert found.warned == [
        "reg is left out: different whole numbers in a row, as registry numbers are; "
        "train it alone if it is measured"
    ]
    alone = read(rows, "smiles reg y", target_columns=("reg",))
    assert alone.targets.names == ["reg"] and not alone.warned
    for other in ("0.5", rows[1][1], "5000"):
        changed = [[smiles, other, y] for smiles, _, y in rows[:1]] + rows[1:]
        assert read(changed, "smiles reg y", **asked).targets.names == ["reg", "y"]
