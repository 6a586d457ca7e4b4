"""The molecules of an experiment."""

import dataclasses

import numpy as np
import pytest

from graphormer_plugin.data.datasets.csv_file import csv_dataset
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.table import CsvTable
from graphormer_plugin.experiment.splits import (
    SPLITS,
    make_splits,
    warnings_of,
    write_molecules,
)
from graphormer_plugin.experiment.table import read_table
from support.labelled_molecules import HEADER, ROWS, settings


def without(column):
    keep = [place for place, name in enumerate(HEADER) if name != column]
    rows = [[row[place] for place in keep] for row in ROWS]
    return rows, [HEADER[place] for place in keep]


def test_the_only_column_of_numbers_is_the_target(write):
    table = read_table(settings(write(*without("active"))))
    assert (table.smiles_column, table.targets.names) == ("Smiles", ["value"])
    assert table.targets.kind == "regression" and len(table) == 7
    assert table.extra_names == ["name", "part"]
    assert table.extras[1] == ["ring", "train"]
    assert table.scaffolds[:4] == ["", "C1CC1", "", "c1ccccc1"]


def test_classes_are_found(write):
    table = read_table(settings(write(*without("value"))))
    assert (table.targets.names, table.targets.kind) == (["active"], "binary")
    path = write()
    named = settings(path, target_columns=("active",), target_kind="regression")
    assert read_table(named).targets.kind == "regression"


def test_a_name_or_number_of_a_molecule_is_no_target(write):
    rows = [[k, f"id{k}", "C" * k, word] for k, word in enumerate("abab", 1)]
    for header in (["compound_id", "x"], ["n", "y"], ["Unnamed: 0", "y"]):
        path = write(rows, [header[0], "Name", "smiles", header[1]])
        with pytest.raises(DatasetError, match="which columns are targets"):
            read_table(settings(path))
        path = write([row[:3:2] for row in rows], [header[0], "smiles"])
        if header[0] != "n":
            message = f"the only other column, {header[0]!r}, is called as names"
            with pytest.raises(DatasetError, match=message):
                read_table(settings(path))
        numbers = [[*row[:3], at % 3] for at, row in enumerate(rows)]
        path = write(numbers, [header[0], "Name", "smiles", header[1]])
        assert read_table(settings(path)).targets.names == [header[1]]


def test_numbers_that_are_no_classes(write):
    rows = [["C" * k, [0, 1, 999][k % 3]] for k in range(1, 9)]
    message = "class 999, but only 3 different labels: number the classes from 0 to 2"
    with pytest.raises(ValueError, match=message):
        read_table(settings(write(rows, ["smiles", "y"]), target_kind="multiclass"))


def test_targets_that_cannot_be_found(write):
    with pytest.raises(DatasetError, match="which columns are targets"):
        read_table(settings(write()))
    both = settings(write(), target_columns=("value", "active"))
    with pytest.raises(
        DatasetError, match="only 0 and 1 in active, other numbers in value: train"
    ):
        read_table(both)
    rows = [[row[0], row[1]] for row in ROWS]
    path = write(rows, ["Smiles", "name"])
    with pytest.raises(DatasetError, match="only other column, 'name', is called"):
        read_table(settings(path))


def test_all_targets_but_the_numbers_of_rows(write):
    rows = [["C" * k + "O", k, k / 4, 9 - k] for k in range(6)]
    asked = settings(write(rows, ["smiles", "n", "y", "z"]), target_columns=("all",))
    table = read_table(asked)
    assert table.targets.names == ["y", "z"]
    (text,) = warnings_of(table, [], asked)
    assert text.startswith("--target-columns all leaves out 'n', which only numbers ")


@pytest.mark.parametrize(
    "asked, split",
    [
        ({}, "column:split"),
        ({"replicates": 2}, "column:split"),
        ({"split": "column:split"}, "column:split"),
        ({"split": "scaffold"}, "scaffold"),
        ({"split": "random"}, "random"),
        ({"folds": 3}, "scaffold"),
        ({"folds": 3, "split": "random"}, "random"),
        ({"ratios": (0.5, 0.25, 0.25)}, "scaffold"),
        ({"ratios": (0.8, 0.1, 0.1)}, "scaffold"),  # the default, but asked for
    ],
)
@pytest.mark.parametrize("name", ["split", "Split", "SPLIT"])
def test_a_column_called_split(write, asked, split, name):
    split = split.replace(":split", f":{name}")
    if asked.get("split") == "column:split":
        asked = {"split": split}
    rows = [["C" * k + "O", k, part] for k, part in enumerate(["train"] * 8, 1)]
    rows += [["CN", 1.5, "valid"], ["CCN", 2.5, "test"]]
    asked = settings(write(rows, ["smiles", "y", name]), **asked)
    table = read_table(asked)
    assert (table.split, table.targets.names) == (split, ["y"])
    used = split.startswith("column:")
    how = " without --folds and --ratios" if asked.folds or asked.ratios else ""
    text = f"the column {name} is not used; --split column:{name}{how} takes it"
    expected = [] if used else [text]
    if asked.replicates > 1:
        expected = [
            f"all replicates have the split of {split}: they differ in their seeds"
        ]
    assert warnings_of(table, [], asked) == expected
    if used:
        splits = make_splits(table, asked)
        assert [found["valid"].tolist() for found in splits] == [[8]] * asked.replicates


def test_a_column_called_split_of_something_else(write):
    rows = [["C" * k + "O", k, k % 5] for k in range(1, 9)]
    message = (
        "column 'split': '1' is not a split, .*; --split random and scaffold do not"
    )
    with pytest.raises(DatasetError, match=message):
        read_table(settings(write(rows, ["smiles", "y", "split"])))


@pytest.mark.parametrize(
    "asked",
    [
        {"target_columns": ("split",)},
        {"target_columns": ("y",), "weight_column": "split"},
        {"target_columns": ("y",), "extra_columns": ("y2", "split")},
    ],
)
def test_a_column_called_split_that_is_named_as_something_else(write, asked):
    rows = [["C" * k + "O", k, k % 4, k % 5] for k in range(1, 9)]
    asked = settings(write(rows, ["smiles", "y", "y2", "split"]), **asked)
    table = read_table(asked)
    assert (table.split, table.targets.names) == ("scaffold", [*asked.target_columns])
    assert warnings_of(table, [], asked) == []


def test_smiles_in_a_column_called_split(write):
    rows = [["C" * k + "O", k] for k in range(1, 9)]
    asked = settings(write(rows, ["split", "y"]), smiles_column="split")
    assert read_table(asked).smiles == [row[0] for row in rows]


def test_a_column_called_split_is_a_target_only_by_its_name(write):
    rows = [["C" * k + "O", k / 4, k % 5, k % 3] for k in range(1, 9)]
    path = write(rows, ["smiles", "y", "Split", "s"])
    for asked, names in {"all": ["y", "s"], "[sS]*": ["s"], "Split": ["Split"]}.items():
        table = read_table(settings(path, target_columns=(asked,), folds=3))
        assert table.targets.names == names
    table = read_table(settings(write(rows, ["smiles", "y", "Split", "name"]), folds=3))
    assert table.targets.names == ["y"]


def test_a_file_of_smiles_has_no_labels(tmp_path):
    path = tmp_path / "few.smi"
    path.write_text("CCO 241\nC 297\n")
    for read in (read_table, lambda asked: csv_dataset(DatasetOptions(asked.table))):
        with pytest.raises(
            DatasetError, match="few.smi: .* no labels; save them as CSV"
        ):
            read(settings(str(path)))


def test_a_column_called_split_without_a_test_row(write):
    rows = [["CO", 1, "train"], ["CCO", 2, "train"], ["CN", 1.5, "valid"]]
    asked = settings(write(rows, ["smiles", "y", "split"]))
    with pytest.raises(
        DatasetError,
        match="no label in split test of --split column:split for a target with labels in "
        "train; mark labelled rows with the word test, or give another --split$",
    ):
        make_splits(read_table(asked), asked)


def test_labels_that_are_missing(write):
    cells = ["1.5", ">10", "ND", "2.5", "1", "0"]
    rows = [["C" * k + "O", f"n{k}", cell] for k, cell in enumerate(cells, 1)]
    asked = settings(write(rows, ["smiles", "key", "y"]), missing_labels=("ND", ">*"))
    table = read_table(asked)
    assert (table.targets.names, table.targets.kind) == (["y"], "regression")
    assert np.array_equal(
        table.labels[:, 0], [1.5, np.nan, np.nan, 2.5, 1, 0], equal_nan=True
    )
    assert [table.label_cells(row)[0] for row in (0, 1, 2)] == ["1.5", "", ""]
    words = dataclasses.replace(asked, missing_labels=("ND", ">*", "nd*", "-999"))
    assert warnings_of(read_table(asked), [], asked) == []
    assert warnings_of(read_table(words), [], words) == [
        "--missing-labels '-999' fits no cell of y"
    ]
    rows = [[*row[:2], word] for row, word in zip(rows, ["yes", "no", "?", "no"] * 2)]
    asked = settings(write(rows, ["smiles", "key", "y"]), target_columns=("y",))
    with pytest.raises(DatasetError, match="column 'y' has 3 words .*--missing-labels"):
        read_table(asked)
    table = read_table(dataclasses.replace(asked, missing_labels=("?",)))
    assert (table.targets.kind, table.targets.class_names) == (
        "binary",
        [["no", "yes"]],
    )
    assert np.isnan(table.labels[:, 0]).tolist() == [False, False, True, *[False] * 3]


def test_columns_that_are_missing(write):
    for option in ({"split": "column:fold"}, {"weight_column": "fold"}):
        with pytest.raises(DatasetError, match="no column 'fold', the header has"):
            read_table(settings(write(), **option))


def test_words_of_more_than_two_classes(write):
    words = ["low", "mid", "high"] * 2
    rows = [["C" * k + "O", word] for k, word in enumerate(words, 1)]
    path = write(rows, ["smiles", "level"])
    message = "column 'level' has 3 words .high, low, mid.; .*--target-kind multiclass"
    with pytest.raises(DatasetError, match=message):
        read_table(settings(path))
    assert read_table(settings(path, target_kind="multiclass")).targets.num_classes == 3
    rows[0][1] = "Low"
    path = write(rows * 2, ["smiles", "level"])
    with pytest.raises(DatasetError, match="column 'level': 'Low' and 'low' differ in"):
        read_table(settings(path, target_kind="multiclass"))


def test_molecules_that_cannot_be_parsed(write):
    path = write([*ROWS, ["C1CC", "open", "1", "train", "0"], ["", "", "", "test", ""]])
    with pytest.raises(DatasetError, match="row 8 .*no SMILES"):
        read_table(settings(path, target_columns=("value",)))
    one = write([*ROWS, ["C1CC", "open", "1", "train", "0"]])
    with pytest.raises(DatasetError, match="1 molecule cannot .*row 7, 'C1CC': .*ring"):
        read_table(settings(one, target_columns=("value",)))
    path = write([*ROWS, ["C1CC", "open", "1", "train", "0"], ["", "", "", "test", ""]])
    asked = settings(
        path, target_columns=("value",), skip_invalid=True, split="column:part"
    )
    table = read_table(asked)
    assert len(table) == len(table.extras) == 7
    assert warnings_of(table, [], asked) == [
        "left out 2 rows that cannot be parsed, listed in invalid.csv"
    ]


def test_the_molecules_are_what_is_wrong(write):
    """And not their targets, which are not named."""
    rows = [["C" * k + "O", f"n{k}", str(k / 2)] for k in range(1, 5)]
    path = write([*rows, ["", "none", "1"]], ["smiles", "name", "y"])
    with pytest.raises(DatasetError, match="row 4 .*no SMILES; --skip-invalid"):
        read_table(settings(path))
    assert read_table(settings(path, skip_invalid=True)).targets.names == ["y"]
    path = write([["C1CC", label] for label in "123"], ["smiles", "y"])
    message = "none of 3 molecules can be parsed .first: row 0, .*; correct the source$"
    with pytest.raises(DatasetError, match=message):
        read_table(settings(path, skip_invalid=True))
    path = write([["C" * 1001, "1"], ["CO", "2"]], ["smiles", "y"])
    message = r"row 0, 'C{80}'\.\.\.: 1,001 atoms, above --max-atoms 1000\)"
    with pytest.raises(DatasetError, match=message):
        read_table(settings(path))


WORDS = [
    ["CCO.Cl", "active", "sweet", "2"],
    ["C1CC1CC", "inactive", "bitter", "0"],
    ["OCC", "active", "", "1.5"],
    ["c1ccccc1C", "", "sour", "1"],
]


def words(write, target, **options):
    path = write(WORDS, ["smiles", "activity", "taste", "trust"])
    return settings(path, target_columns=(target,), **options)


def test_words_are_classes(write, tmp_path):
    """Two words by their meaning, more only if they are asked for."""
    table = read_table(words(write, "activity"))
    assert table.targets.kind == "binary"
    assert table.targets.class_names == [["inactive", "active"]]
    assert table.labels[:3, 0].tolist() == [1, 0, 1]
    with pytest.raises(DatasetError, match="column 'taste': 'sweet' is not a number"):
        read_table(words(write, "taste"))
    table = read_table(words(write, "taste", target_kind="multiclass"))
    assert table.targets.class_names == [["bitter", "sour", "sweet"]]
    asked = words(write, "taste", class_names=("sweet", "sour", "bitter", "umami"))
    table = read_table(asked)
    assert (table.targets.kind, table.targets.num_classes) == ("multiclass", 4)
    write_molecules(tmp_path, table, [{name: np.arange(4) for name in SPLITS}])
    rows = list(CsvTable(tmp_path / "molecules.csv").rows(["taste", "trust"]))
    assert [cells[0] for _, _, cells in rows] == ["sweet", "bitter", "", "sour"]
    numbers = words(write, "trust", target_kind="multiclass")
    with pytest.raises(DatasetError, match="'1.5' is not a class number"):
        read_table(numbers)


def test_weights_and_fragments(write):
    table = read_table(words(write, "activity", weight_column="trust"))
    assert table.weights.tolist() == [2, 0, 1.5, 1]
    assert len({*table.keys}) == 4
    table = read_table(words(write, "activity", largest_fragment=True))
    assert len({*table.keys}) == 3
    assert table.smiles[0] == "CCO.Cl" and table.weights is None
    with pytest.raises(DatasetError, match="no column 'none'"):
        read_table(words(write, "activity", weight_column="none"))


def test_weights_of_classes(write):
    with pytest.raises(ValueError, match="--class-weights 1,2,3: expected 2 numbers"):
        read_table(words(write, "activity", class_weights="1,2,3"))
    with pytest.raises(DatasetError, match="balanced: the targets are numbers"):
        read_table(words(write, "trust", class_weights="balanced"))
    assert read_table(words(write, "activity", class_weights="balanced"))
