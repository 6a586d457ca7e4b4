"""Warnings about probable mistakes in the data of an experiment."""

import dataclasses

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.experiment.data_warnings import warnings_of
from graphormer_plugin.experiment.labelled_molecules import read_table
from support.labelled_molecules import PARTS, settings


def warnings(table, asked, splits):
    return warnings_of(table, splits, asked)


BOTH, ONE, NONE = [0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 1, 1], [0, 1, 0, 1, "", ""]


@pytest.mark.parametrize(
    "columns, text",
    [
        ([ONE], "y0 lacks a class in test, where roc_auc has no value"),
        (
            [BOTH, ONE, NONE, ONE, ONE],
            "y1, y2, y3 and 1 more lack a class in test, where roc_auc has no value: the "
            "mean is over 1 of 5 targets",
        ),
        (
            [[0.5, 1, 2, 3, 4, 5], [2, 1, 3, 4, "", ""]],
            "y1 lacks labels in test, where rmse has no value: the mean is over 1 of 2 "
            "targets",
        ),
        (
            [BOTH, ["", "", *BOTH[2:]]],
            "no label of y1 in train: nothing is learned about it, and metrics leave it out",
        ),
    ],
)
def test_each_target_without_a_metric_is_named(read, columns, text):
    named = {f"y{number}": column for number, column in enumerate(columns)}
    found = read({"part": PARTS, **named}, target_columns=tuple(named))
    assert warnings(*found) == [text]


def test_a_class_without_a_molecule(read):
    labels = [0, 1, 3, 0, 1, 3]
    found = read({"part": PARTS, "y": labels}, target_kind="multiclass")
    assert "no molecule has class 2" in warnings(*found)


def test_targets_whose_labels_in_train_have_no_weight(read):
    """Nothing is learned about b, whose labels in train have the weight 0."""
    columns = {"part": PARTS, "a": range(6), "b": [5, "", 7, 8, 9, 10]}
    columns["w"] = [0, 1, 0, 1, 1, 1]
    asked = {"target_columns": ("a", "b")}
    assert warnings(*read(columns, **asked)) == []
    asked["weight_column"] = "w"
    table, settings, splits = read(columns, **asked)
    assert warnings(table, settings, splits) == [
        "no label of b in train has a weight above 0: nothing is learned about it, and "
        "metrics leave it out"
    ]
    labels = table.scored_labels(splits[0], "test")
    assert labels[:, 0].tolist() == [4, 5] and np.isnan(labels[:, 1]).all()
    with pytest.raises(
        DatasetError, match="no label with a weight above 0 in split tr"
    ):
        read({**columns, "w": [0, 0, 1, 1, 1, 1]}, **asked)


def test_valid_is_drawn_from_train(read):
    """Of a column without valid, by molecule and seed."""
    parts = ["train"] * 20 + ["test"] * 5
    table, asked, splits = read({"y": range(25), "part": parts}, replicates=3)
    for split in splits:
        assert split["test"].tolist() == [*range(20, 25)]
        fitted = np.concatenate([split["train"], split["valid"]])
        assert sorted(fitted) == [*range(20)] and len(split["valid"]) == 3
    assert len({tuple(split["valid"]) for split in splits}) == 3
    drawn, *others = warnings(table, asked, splits)
    assert drawn == "3 molecules of train are valid, drawn at random by --seed"
    assert not any("replicates have the split" in text for text in others)


def test_salts_are_counted(write):
    rows = [[f"{'C' * at}O" + ".Cl" * (at % 3 > 0), at] for at in range(1, 61)]
    asked = settings(write(rows, ["smiles", "y"]))
    (text,) = warnings_of(read_table(asked), [], asked)
    assert text == (
        "40 molecules of several fragments, such as 'CO.Cl'; --largest-fragment "
        "leaves out salts and solvents"
    )
    asked = dataclasses.replace(asked, largest_fragment=True)
    assert warnings_of(read_table(asked), [], asked) == []
