"""Metrics of predictions for a table with labels."""

from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.tables.csv_lines import write_csv
from graphormer_plugin.data.tables.formats import CsvTable, open_table
from graphormer_plugin.experiment.scored_table import scored_text

WORDS = TargetSchema(["y"], kind="binary", class_names=[["no", "yes"]])
CLASSES = TargetSchema(["y"], kind="multiclass", num_classes=2)


@pytest.fixture
def found(tmp_path):
    """Function: lines of the metrics, and warnings, of labels and predictions by column."""

    def found(targets, labels, predictions, logs=(), rows=None, missing=()):
        paths = tmp_path / "in.csv", tmp_path / "out.csv"
        for path, columns in zip(paths, (labels, predictions)):
            write_csv(path, [list(columns), *zip(*columns.values(), strict=True)])
        table, warned = open_table(paths[0]), []
        name_of = {name.removesuffix("_predicted"): name for name in predictions}
        rows = rows or (0, table.count())
        predictor = SimpleNamespace(targets=targets, logs=logs)
        run = SimpleNamespace(predictor=predictor, name_of=name_of)
        text = scored_text(run, table, rows, paths[1], missing, warned.append)
        return [line.split() for line in text.splitlines()[2:]], warned

    return found


def test_numbers(found):
    """Only rows with label and prediction count, of each endpoint that is there."""
    targets = TargetSchema(["a", "b", "c"])
    labels = {"smiles": "CNOFS", "a": [1, 2, "", 4, 9], "c": [""] * 5}
    predicted = {"a_predicted": [1, 3, 5, 2, ""], "b": range(5), "c": range(5)}
    lines, warned = found(targets, labels, predicted)
    assert lines == [
        ["endpoint", "n", "rmse", "mae", "r2", "spearman"],
        ["a", "3", "1.291", "1.000", "-0.071", "0.500"],
    ]
    assert warned == []
    assert found(targets, {"a": [""] * 5}, predicted) == ([], [])
    lines, _ = found(targets, {"a": [5, 1, 2, 3]}, {"a_predicted": [1, 2]}, rows=(1, 3))
    assert lines[1][1:3] == ["2", "0"]


def test_cells_that_are_no_labels(found):
    labels = {"a": ["1,5", ">9", "", "2,25", "x"], "b": "01234"}
    predicted = {"a_predicted": [1.5, 2, 3, 2.25, 5], "b_predicted": range(5)}
    targets = TargetSchema(["a", "b"])
    lines, warned = found(targets, labels, predicted)
    assert [line[:3] for line in lines[1:]] == [["a", "2", "0"], ["b", "5", "0"]]
    first, second = warned
    assert first.endswith("column 'a': 1,5 is read as 1.5")
    text = "column 'a': cells such as '>9' are no labels, metrics leave them out"
    assert second.endswith(text)


def test_missing_labels_of_the_training(found):
    labels = {"a": ["1", "-999.0", "nd", "4"], "b": [-999, 1, 2, 3]}
    predicted = {"a_predicted": [1, 2, 3, 4], "b_predicted": range(4)}
    targets = TargetSchema(["a", "b"])
    lines, warned = found(targets, labels, predicted, missing=["-999", "ND"])
    assert [line[:3] for line in lines[1:]] == [["a", "2", "0"], ["b", "3", "0"]]
    assert warned == []


def test_tables_are_read_once(found, monkeypatch):
    """For several targets, as often as for a single one."""
    read, rows = [], CsvTable.rows
    monkeypatch.setattr(
        CsvTable,
        "rows",
        lambda table, *given: read.append(table) or rows(table, *given),
    )
    labels = {name: range(4) for name in "abc"}
    predicted = {f"{name}_predicted": range(4) for name in "abc"}
    found(TargetSchema(["a"]), labels, predicted)
    count = len(read)
    lines, _ = found(TargetSchema(["a", "b", "c"]), labels, predicted)
    assert [line[:3] for line in lines[1:]] == [[name, "4", "0"] for name in "abc"]
    assert len(read) == 2 * count


def test_classes(found):
    predicted = {"y_predicted": [0.1, 0.9, 0.4, 0.2]}
    lines, warned = found(WORDS, {"y": ["no", "yes", "0", "maybe"]}, predicted)
    assert lines[0] == ["endpoint", "n", "roc_auc", "ap", "accuracy"]
    assert lines[1] == ["y", "3", "1.000", "1.000", "1.000"]
    assert "cells such as 'maybe' are no labels" in warned[0]
    predicted = {"y_probability_0": [0.8, 0.6, 0.5], "y_probability_1": [0.2, 0.4, 0.5]}
    lines, warned = found(CLASSES, {"y": [0, 1, 7]}, predicted)
    assert lines[1][:4] == ["y", "2", "0.500", "0.500"]
    assert "cells such as '7' are no labels" in warned[0]


def test_logarithms(found):
    values = np.array([1.0, 10.0, 1000.0])
    lines, _ = found(TargetSchema(["a"]), {"a": values}, {"a": values * 10}, logs=[0])
    assert [line[:2] for line in lines[1:]] == [["log10", "a"], ["a", "3"]]
    assert lines[1][3:5] == ["1.000", "1.000"]  # RMSE and MAE
    labels = [0, 10, 1000]  # of which 0 has no logarithm
    lines, _ = found(TargetSchema(["a"]), {"a": labels}, {"a": values * 10}, logs=[0])
    assert lines[1][:4] == ["log10", "a", "2", "1.000"] and lines[2][:2] == ["a", "3"]
