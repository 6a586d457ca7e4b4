"""The molecules of an experiment. What reading a table refuses is in tests/test_refusals.py."""

import numpy as np
import pytest

from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.workbench.experiment.data_warnings import experiment_warnings
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    SplitLabels,
    read_table,
)
from graphormer_plugin.workbench.experiment.report import label_table, shown_label
from graphormer_plugin.workbench.experiment.split_tables import write_molecules
from graphormer_plugin.workbench.experiment.targets import learned_targets, on_scales
from support.labelled_molecules import HEADER, ROWS, settings, splits_of
from support.stores import csv_dataset

INF = np.inf
ALCOHOLS = [f"{'C' * k}O" for k in range(1, 9)]


@pytest.fixture
def read(write):
    """Function: read a table of rows with the names of a header."""

    def read(rows, header, **options):
        asked = settings(write(rows, header.split()), **options)
        return learned_targets(read_table(asked), asked)

    return read


def without(name):
    place = HEADER.index(name)
    rows = [[cell for at, cell in enumerate(row) if at != place] for row in ROWS]
    return rows, " ".join(other for other in HEADER if other != name)


def test_the_only_column_of_numbers_is_the_target(read):
    table = read(*without("active"))
    assert (table.smiles_column, table.targets.names) == ("Smiles", ["value"])
    assert table.targets.kind == "regression" and len(table) == 7
    assert {name: cells[1] for name, cells in table.others.items()} == {
        "name": "ring",
        "part": "train",
    }
    assert table.scaffolds[:4] == ["", "C1CC1", "", "c1ccccc1"]
    assert not read(*without("active"), split="random").scaffolds  # not computed


def test_classes_are_found(read, write):
    table = read(*without("value"))
    assert (table.targets.names, table.targets.kind) == (["active"], "binary")
    asked = {"target_columns": ("active",), "target_kind": "regression"}
    assert read_table(settings(write(), **asked)).targets.kind == "regression"


@pytest.mark.parametrize("name", ["compound_id", "n", "Unnamed: 0"])
def test_a_number_of_a_molecule_is_no_target(write, name):
    rows = [[k, f"id{k}", "C" * k, k % 3] for k in range(1, 5)]
    table = read_table(settings(write(rows, [name, "Name", "smiles", "y"])))
    assert table.targets.names == ["y"]


@pytest.mark.parametrize(
    "asked, split",
    [
        ({}, "column:SPLIT"),
        ({"replicates": 2}, "column:SPLIT"),
        ({"split": "column:SPLIT"}, "column:SPLIT"),
        ({"split": "random"}, "random"),
        ({"folds": 3}, "scaffold"),
        ({"folds": 3, "split": "random"}, "random"),
        ({"ratios": (0.8, 0.1, 0.1)}, "scaffold"),  # the default, but asked for
        ({"weight_column": "SPLIT"}, "scaffold"),
        ({"extra_columns": ("SPLIT",)}, "scaffold"),
    ],
)
def test_a_column_called_split(write, asked, split):
    named = {"weight_column", "extra_columns"} & asked.keys()
    parts = [1] * 10 if named else ["train"] * 8 + ["valid", "test"]
    rows = [["C" * k + "O", k, part] for k, part in enumerate(parts, 1)]
    path = write(rows, ["smiles", "y", "SPLIT"])
    asked = settings(path, target_columns=("y",), **asked)
    table = read_table(asked)
    assert (table.split, table.targets.names) == (split, ["y"])
    how = " without --folds, --ratios and --test-file"
    how *= bool(asked.folds or asked.ratios)
    warned = [f"the column SPLIT is not used; --split column:SPLIT{how} takes it"]
    if split == "column:SPLIT":
        text = f"all replicates have the split of {split}: they differ in their seeds"
        warned = [text] * (asked.replicates > 1)
        valid = [parts.rows["valid"].tolist() for parts in splits_of(table, asked)]
        assert valid == [[8]] * asked.replicates
    assert experiment_warnings(table, [], asked) == warned * (not named)


def test_labels_that_are_missing(write):
    cells = ["1.5", ">10", "ND", "2.5", "1", "0"]
    path = write([*zip(ALCOHOLS, cells)], ["smiles", "y"])
    asked = settings(path, missing_labels=("ND", ">*", "-999"))
    table = read_table(asked)
    known = [1.5, np.nan, np.nan, 2.5, 1, 0]
    assert np.array_equal(table.labels[:, 0], known, equal_nan=True)
    assert [table.label_cells(row)[0] for row in (0, 1, 2)] == ["1.5", "", ""]
    unused, unlabelled = experiment_warnings(table, [], asked)
    assert unused == "--missing-labels '-999' fits no cell of y"
    assert unlabelled.startswith("2 molecules without a label take no part; graph")


def test_bounds(read, tmp_path):
    """They are learned, as logarithms too, and no metric counts them."""
    cells = [("10", 1), (">1000", 2), ("", 3), ("<0.1", 4), ("5", 5), ("1-100", 5)]
    cells += [("0-10", 6), ("7", 5)]
    rows = [[smiles, *both, "x"] for smiles, both in zip(ALCOHOLS, cells)]
    given = {"target_columns": ("y",), "log_targets": ("y",), "censored": True}
    table = read(rows, "smiles y z name", **given)
    assert table.bounds[:, 0].tolist() == [0, INF, 0, -INF, 0, 49.5, 5, 0]
    split = {"train": np.arange(4), "test": np.array([1, 4]), "valid": np.array([3])}
    asked = settings("a.csv", log_targets=("y",))
    table = on_scales(table, SplitLabels(table, split), asked)
    assert table.labels[1, 0] == 3 and np.isnan(table.exact_labels[[1, 2, 3], 0]).all()
    in_unit = [table.in_unit.label_cells(row)[0] for row in range(4)]
    assert in_unit == ["10.0", ">1000.0", "", "<0.1"]
    scaled = [table.label_cells(row)[0] for row in (1, 3, 5, 6)]
    assert scaled == [">3.0", "<-1.0", "0.0-2.0", "<1.0"]
    assert table.in_unit.label_cells(5)[0] == "1.0-100.0"
    in_unit = [shown_label(table.in_unit, row, 0) for row in (0, 1, 5)]
    assert in_unit == ["10", ">1e+03", "1-100"]
    assert "4 labels are bounds, which no metric counts" in table.warned
    assert label_table(table, split)[1][2] == "0"
    labels = SplitLabels(table, split)
    scored = labels.scored("test")
    assert np.isnan(scored[0, 0]) and scored[1, 0] == np.log10(5)
    assert (~np.isnan(labels.trained)).sum() == 1
    assert (~np.isnan(labels.learned)).sum() == 3
    write_molecules(tmp_path, table, [])
    path = str(tmp_path / "molecules.csv")
    asked = {"target_columns": "log10 y", "split": "random", "censored": True}
    again = csv_dataset(DatasetOptions(path, **asked))
    assert np.array_equal(again.bounds, table.bounds)
    assert np.array_equal(again.targets, table.labels, equal_nan=True)


def test_labels_are_converted_once(read, tmp_path):
    """What fairseq-train reads has the unit of its labels."""
    units = ["uM", "nM", "uM", "", "nM", "mM"]
    rows = [[s, at + 1.5, unit] for at, (s, unit) in enumerate(zip(ALCOHOLS, units))]
    rows[3][1] = ""
    given = {"target_columns": ("y",), "target_unit": "nM"}
    table = read(rows, "smiles y unit", **given)
    expected = [1500, 2.5, 3500, np.nan, 5.5, 6.5e6]
    assert np.array_equal(table.labels[:, 0], expected, equal_nan=True)
    converted = "3 labels of 'y' are converted from uM, mM to nM, by column 'unit'"
    assert converted in table.warned
    write_molecules(tmp_path, table, [])
    path = str(tmp_path / "molecules.csv")
    again = csv_dataset(DatasetOptions(path, split="random", **given))
    assert np.array_equal(again.targets, table.labels, equal_nan=True)


def test_rows_that_are_left_out(write):
    more = [["C1CC", "open", "1", "train", "0"], ["", "", "", "test", ""]]
    given = {"target_columns": ("value",), "split": "column:part"}
    asked = settings(write([*ROWS, *more]), skip_invalid=True, **given)
    table = read_table(asked)
    assert len(table) == len(table.others["name"]) == 7
    assert experiment_warnings(table, [], asked)[1:] == [
        "left out 2 rows that cannot be parsed, listed in invalid.csv"
    ]


def test_words_are_classes(read):
    """A salt is a molecule of its own, unless its largest fragment is."""
    rows = [
        ["CCO.Cl", "active", "2"],
        ["C1CC1CC", "inactive", "0"],
        ["OCC", "active", "1.5"],
        ["c1ccccc1C", "", "1"],
    ]

    def words(**options):
        asked = {"target_columns": ("activity",), **options}
        return read(rows, "smiles activity trust", **asked)

    table = words(weight_column="trust")
    assert table.targets.kind == "binary"
    assert table.targets.class_names == [["inactive", "active"]]
    assert table.labels[:3, 0].tolist() == [1, 0, 1]
    assert table.weights.tolist() == [2, 0, 1.5, 1] and len({*table.keys}) == 4
    table = words(largest_fragment=True, class_weights="balanced")
    assert table.weights is None and len({*table.keys}) == 3
    assert table.smiles[0] == "CCO.Cl"


def test_registry_numbers_are_no_endpoint(read):
    """Different whole numbers in a row, in any order; measured values have ties."""
    registry = [f"{1000 + 3 * k % 31}" for k in range(24)]
    rows = [[f"{'C' * (k + 1)}O", number, k // 2] for k, number in enumerate(registry)]

    def table(rows, *targets):
        return read(rows, "smiles reg y", target_columns=targets)

    both = table(rows, "reg", "y")
    assert both.targets.names == ["y"]
    assert both.others == {"reg": tuple(f"{number}.0" for number in registry)}
    assert both.warned == [
        "reg is left out: different whole numbers in a row, as registry numbers are; "
        "train it alone if it is measured"
    ]
    alone = table(rows, "reg")
    assert alone.targets.names == ["reg"] and not alone.warned
    for other in ("0.5", rows[1][1], "5000"):
        changed = [[smiles, other, y] for smiles, _, y in rows[:1]] + rows[1:]
        assert table(changed, "reg", "y").targets.names == ["reg", "y"]
