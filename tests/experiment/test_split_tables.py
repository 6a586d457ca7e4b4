"""The splits of an experiment, and the file for fairseq-train."""

import dataclasses

import numpy as np
import pytest

from graphormer_plugin.data.datasets.csv_file import csv_dataset
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.table import CsvTable
from graphormer_plugin.experiment.splits import (
    SMILES_COLUMN,
    SPLITS,
    make_splits,
    scored_labels,
    warnings_of,
    write_molecules,
)
from graphormer_plugin.experiment.table import read_table
from support.labelled_molecules import HEADER, ROWS, settings


@pytest.mark.parametrize("label", ["1.5", "1"])
def test_equal_labels_are_refused(write, label):
    rows = [["C" * k + "O", label] for k in range(1, 9)]
    with pytest.raises(DatasetError, match="all labels of y are equal"):
        read_table(settings(write(rows, ["smiles", "y"])))
    rows = [[*row, number % 2] for number, row in enumerate(rows)]
    both = {"target_columns": ("y", "z"), "target_kind": "regression"}
    asked = settings(write(rows, ["smiles", "y", "z"]), **both)
    first, *_ = warnings_of(read_table(asked), [], asked)
    assert first == "all labels of y are equal, or missing"


def test_a_split_without_a_class(write):
    parts = ["train"] * 4 + ["valid"] * 2 + ["test"] * 2
    labels = [0, 1, 0, 1, 0, 1, 1, 1]
    rows = [
        ["C" * k + "O", part, label]
        for k, (part, label) in enumerate(zip(parts, labels, strict=True), 1)
    ]
    asked = settings(write(rows, ["smiles", "part", "y"]), split="column:part")
    table = read_table(asked)
    assert warnings_of(table, make_splits(table, asked), asked) == [
        "y lacks a class in test, where roc_auc has no value"
    ]
    rows = [row for row in rows if row[1] != "test"]
    asked = settings(write(rows, ["smiles", "part", "y"]), split="column:part")
    with pytest.raises(DatasetError, match="mark labelled rows with the word test"):
        make_splits(read_table(asked), asked)


def several_targets(write, columns, **options):
    """Two rows in each of train, valid and test; targets a, b, ..."""
    names = [chr(97 + number) for number in range(len(columns))]
    parts = ["train", "train", "valid", "valid", "test", "test"]
    rows = [["C" * k + "O", *cells] for k, cells in enumerate(zip(parts, *columns), 1)]
    path = write(rows, ["smiles", "part", *names])
    return settings(path, split="column:part", target_columns=tuple(names), **options)


def test_a_class_without_a_molecule(write):
    rows = [["C" * k + "O", [0, 1, 3][k % 3]] for k in range(1, 9)]
    asked = settings(write(rows, ["smiles", "y"]), target_kind="multiclass")
    assert warnings_of(read_table(asked), [], asked) == ["no molecule has class 2"]


def test_each_target_without_a_metric_is_named(write):
    both, one, none = [0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 1, 1], [0, 1, 0, 1, "", ""]
    asked = several_targets(write, [both, one, none, one, one])
    table = read_table(asked)
    assert warnings_of(table, make_splits(table, asked), asked) == [
        "b, c, d and 1 more lack a class in test, where roc_auc has no value: the mean "
        "is over 1 of 5 targets"
    ]
    numbers = [0.5, 1, 2, 3, 4, 5]
    asked = several_targets(write, [numbers, [2, 1, 3, 4, "", ""]])
    table = read_table(asked)
    assert warnings_of(table, make_splits(table, asked), asked) == [
        "b lacks labels in test, where rmse has no value: the mean is over 1 of 2 targets"
    ]


@pytest.mark.parametrize("scale", [1, 2.5])
def test_targets_without_a_label_in_train(write, scale):
    """They count in no metric, of no model."""
    both, rare = [0, scale, 0, scale, 0, scale], ["", "", "", scale, 0, scale]
    asked = several_targets(write, [both, rare])
    table = read_table(asked)
    splits = make_splits(table, asked)
    assert warnings_of(table, splits, asked) == [
        "no label of b in train: nothing is learned about it, and metrics leave it out"
    ]
    labels = scored_labels(table, splits[0], "valid")
    assert np.array_equal(labels[:, 0], table.labels[splits[0]["valid"], 0])
    assert np.isnan(labels[:, 1]).all() and not np.isnan(table.labels[3:]).any()
    asked = several_targets(write, [[scale, 0, scale, 0, "", ""], rare])
    message = "no label in split test .* for a target with labels in train; mark"
    with pytest.raises(DatasetError, match=message):
        make_splits(read_table(asked), asked)


def test_targets_whose_labels_in_train_have_no_weight(write, tmp_path):
    """Nothing is learned about b, whose first two labels have the weight 0."""
    parts = ["train"] * 3 + ["valid"] * 2 + ["test"] * 2
    columns = parts, range(7), [5, 6, "", 7, 8, 9, 10], [0, 0, 1, 1, 0, 1, 1]
    rows = [["C" * k + "O", *cells] for k, cells in enumerate(zip(*columns), 1)]
    path = write(rows, ["smiles", "part", "a", "b", "w"])
    given = {"split": "column:part", "target_columns": ("a", "b")}
    asked = settings(path, **given)
    table = read_table(asked)
    assert warnings_of(table, make_splits(table, asked), asked) == []
    asked = settings(path, **given, weight_column="w")
    table = read_table(asked)
    splits = make_splits(table, asked)
    assert warnings_of(table, splits, asked) == [
        "no label of b in train has a weight above 0: nothing is learned about it, and "
        "metrics leave it out"
    ]
    labels = scored_labels(table, splits[0], "test")
    assert labels[:, 0].tolist() == [5, 6] and np.isnan(labels[:, 1]).all()
    assert write_molecules(tmp_path, table, splits) == [("molecules1.csv", "split1")]
    table.weights[2] = 0
    message = (
        "no label with a weight above 0 in split train of --split column:part; mark"
    )
    with pytest.raises(DatasetError, match=message):
        make_splits(table, asked)


def test_test_molecules_that_valid_has(write):
    """Heads and random forests are fitted to both."""
    rows = [["C" * k + "O", "train", k] for k in range(1, 5)]
    rows += [["C" * k + "N", "valid", k] for k in range(1, 5)]
    rows += [["N" + "C" * k, "test", k] for k in range(1, 4)]
    asked = settings(write(rows, ["smiles", "part", "y"]), split="column:part")
    table = read_table(asked)
    (text,) = warnings_of(table, make_splits(table, asked), asked)
    assert text.startswith(
        "3 of 3 rows of test are molecules that train or valid has too, so that metrics"
    )


def test_a_split_column(write):
    asked = settings(write(), split="column:part", target_columns=("value",))
    table = read_table(asked)
    (split,) = make_splits(table, asked)
    assert {name: rows.tolist() for name, rows in split.items()} == {
        "train": [0, 1, 3],
        "valid": [4, 5],
        "test": [2, 6],
    }
    assert table.extra_names == ["name", "active"]
    first, second = warnings_of(table, [split], asked)
    assert first.startswith("1 molecule with several rows and contradicting labels")
    assert second.startswith(
        "1 of 2 rows of test are molecules that train or valid has too"
    )
    asked = dataclasses.replace(asked, extra_columns=("active",))
    (only,) = warnings_of(read_table(asked), [split], asked)
    assert only.startswith(
        "1 of 2 rows of test are molecules that train or valid has too"
    )
    assert "duplicates" not in only


def test_splits_by_seed_and_fold(write, rng):
    rows = [["C" * k + "O", str(k)] for k in range(1, 31)]
    path = write(rows, ["smiles", "y"])
    asked = settings(path, split="random", replicates=3)
    table = read_table(asked)
    found = make_splits(table, asked)
    assert len({tuple(split["test"]) for split in found}) == 3
    later = make_splits(table, settings(path, split="random", seed=2))
    assert np.array_equal(later[0]["test"], found[1]["test"])
    found = make_splits(table, settings(path, split="random", folds=5))
    tested = np.concatenate([split["test"] for split in found])
    assert sorted(tested) == list(range(30))
    table = read_table(settings(path))
    message = (
        "no label in split train of --split scaffold; all .* so give --split random"
    )
    with pytest.raises(DatasetError, match=message):
        make_splits(table, settings(path))  # alcohols share one scaffold: none
    with pytest.raises(
        DatasetError, match=f"{path}: 1 scaffold cannot make 3 folds; give"
    ):
        make_splits(table, settings(path, folds=3))


def test_two_columns_of_smiles(write, tmp_path):
    rows = [[row[0], row[0][::-1], row[2], row[3]] for row in ROWS]
    header = ["canonical_smiles", "SMILES", "value", "part"]
    asked = settings(
        write(rows, header),
        smiles_column="canonical_smiles",
        target_columns=("value",),
        split="column:part",
    )
    table = read_table(asked)
    write_molecules(tmp_path, table, make_splits(table, asked))
    read = DatasetOptions(
        name=str(tmp_path / "molecules.csv"),
        smiles_column=SMILES_COLUMN,  # as the line of fairseq-train says
        target_columns=("value",),
    )
    assert csv_dataset(read).smiles == [row[0] for row in ROWS]


def test_the_file_for_fairseq(write, tmp_path):
    rows = [[*row, "x"] for row in ROWS]
    path = write([*rows, ["C1CC", "open", "1", "train", "0", "y"]], [*HEADER, "split1"])
    asked = settings(
        path, target_columns=("value",), skip_invalid=True, split="column:part"
    )
    table = read_table(asked)
    splits = make_splits(table, asked)
    sources = write_molecules(tmp_path, table, splits * 2)
    assert sources == [("molecules.csv", "split2"), ("molecules.csv", "split3")]
    options = DatasetOptions(
        name=str(tmp_path / "molecules.csv"),
        target_columns=("value",),
        split="column:split3",
    )
    source = csv_dataset(options)
    assert source.smiles == [row[0] for row in ROWS]
    assert np.array_equal(source.targets, table.labels, equal_nan=True)
    assert splits[0] and source.splits.keys() == splits[0].keys()
    for name, found in splits[0].items():
        assert np.array_equal(source.splits[name], found)
    extra = list(CsvTable(tmp_path / "molecules.csv").rows(["name", "split1"]))
    assert extra[2][2] == ["ethanol again", "x"]
    assert "C1CC" in (tmp_path / "invalid.csv").read_text()


def test_a_target_without_a_label_in_train(write, tmp_path):
    """Its labels in valid do not select a checkpoint; another split may know it."""
    asked = settings(
        write(), target_columns=("value", "active"), target_kind="regression"
    )
    table = read_table(asked)
    known = {name: np.array(rows) for name, rows in zip(SPLITS, ([0, 1], [2], [3, 5]))}
    unknown = known | {"train": np.array([3, 6]), "test": np.array([0, 1])}
    table.labels[[3, 6], 1] = np.nan
    sources = write_molecules(tmp_path, table, [known, unknown])
    assert sources == [("molecules.csv", "split1"), ("molecules2.csv", "split2")]
    cells = {
        file: [row for *_, row in CsvTable(tmp_path / file).rows(["value", "active"])]
        for file, _ in sources
    }
    labels = [row[1] for row in cells["molecules.csv"]]
    assert labels == ["0.0", "1.0", "1.0", "", "0.0", "1.0", ""]
    assert {row[1] for row in cells["molecules2.csv"]} == {""}
    # Words name the classes, so they stay.
    table = dataclasses.replace(
        table, targets=table.targets.with_classes([[], ["no", "yes"]])
    )
    assert {file for file, _ in write_molecules(tmp_path, table, [unknown])} == (
        {"molecules.csv"}
    )
    assert [row[0] for row in cells["molecules2.csv"]] == (
        [row[0] for row in cells["molecules.csv"]]
    )


def test_cells_with_ends_of_lines(write, tmp_path):
    asked = settings(
        write([[row[0], "old\rmac", *row[2:]] for row in ROWS]),
        split="column:part",
        target_columns=("value",),
    )
    table = read_table(asked)
    write_molecules(tmp_path, table, make_splits(table, asked))
    rows = list(CsvTable(tmp_path / "molecules.csv").rows(["smiles", "name"]))
    assert [cells for *_, cells in rows] == [[row[0], "old\rmac"] for row in ROWS]
