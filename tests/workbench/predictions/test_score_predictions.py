"""Metrics of predictions for a table with labels."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.files import write_csv
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.workbench.predictions.score_predictions import TableScores
from graphormer_plugin.workbench.predictions.table_run import PredictedRows

WORDS = TargetSchema.of(["y"], kind="binary", class_names=[["no", "yes"]])
CLASSES = TargetSchema.of(["y"], kind="multiclass", num_classes=2)


@pytest.fixture
def found(tmp_path):
    """Function: lines of the metrics, and warnings, of labels by column and predictions
    by row."""

    def found(targets, labels, predictions, missing=()):
        write_csv(tmp_path / "in.csv", [[*labels], *zip(*labels.values(), strict=True)])
        table, warned = open_table(tmp_path / "in.csv"), []
        predictor = SimpleNamespace(targets=targets, seen=None)
        made = TableScores(predictor, table, missing)
        values = np.array(predictions)
        cells = [cells for *_, cells in table.rows(table.header)]
        for part in (slice(0, 2), slice(2, None)):
            made.add(PredictedRows(cells[part], values[part], None, Counter()))
        text = made.text(warned.append)
        return [line.split() for line in text.splitlines()[2:]], warned

    return found


def test_numbers(found):
    """Only rows with label and prediction count, of each endpoint that is there."""
    targets = TargetSchema.of(["a", "b", "c"])
    labels = {"smiles": "CNOFS", "a": [1, 2, "", 4, 9], "c": [""] * 5}
    predicted = [[1, 0, 0], [3, 1, 1], [5, 2, 2], [2, 3, 3], [np.nan] * 3]
    lines, warned = found(targets, labels, predicted)
    assert lines == [
        ["endpoint", "n", "rmse", "mae", "r2", "spearman"],
        ["a", "3", "1.291", "1.000", "-0.071", "0.500"],
    ]
    assert warned == []
    assert found(targets, {"a": [""] * 5}, predicted) == ([], [])


def test_endpoints_of_several_kinds(found):
    kinds = {"kind": ["multiclass", "regression"], "num_classes": [2, 0]}
    predicted = [[0.9, 0.1, 1], [0.2, 0.8, 2], [0.3, 0.7, 3], [0.6, 0.4, 4]]
    labels = {"b": [1, 2, 3, 4], "a": [0, 1, 1, 1]}
    lines, _ = found(TargetSchema.of(["a", "b"], **kinds), labels, predicted)
    assert lines[1][:3] == ["a", "4", "0.750"]
    assert lines[2][:6] == ["b", "4", "-", "-", "-", "0"]


def test_cells_that_are_no_labels(found):
    labels = {"a": ["1,5", ">9", "", "2,25", "x"], "b": "01234"}
    predicted = [[1.5, 0], [2, 1], [3, 2], [2.25, 3], [5, 4]]
    targets = TargetSchema.of(["a", "b"])
    lines, warned = found(targets, labels, predicted)
    assert [line[:3] for line in lines[1:]] == [["a", "2", "0"], ["b", "5", "0"]]
    first, second = warned
    assert first.endswith("column 'a': 1,5 is read as 1.5")
    assert "column 'a': cells such as '>9' are not labels" in second


@pytest.mark.parametrize("name, count", [("relation", 2), ("z_relation", 4)])
def test_bounds_are_no_labels(found, name, count):
    labels = {name: [">", "=", "<<", "="], "y": [1, 2, 3, 4]}
    lines, warned = found(TargetSchema.of(["y"]), labels, [[1], [2], [3], [4]])
    assert lines[1][:2] == ["y", str(count)]
    assert ["2 labels of 'y' have" in line for line in warned] == [True] * (count == 2)


def test_labels_in_another_unit(found):
    labels = {"y": ["1.5", "2500", "3", "4"], "unit": ["uM", "nM", "kg", ""]}
    predicted = [[1500], [2500], [3], [4]]
    lines, (warned,) = found(TargetSchema.of(["y"], "nM"), labels, predicted)
    assert [line[:3] for line in lines[1:]] == [["y", "2", "0"]]
    assert "2 labels of 'y' without a unit like nM in column 'unit' are" in warned
    lines, warned = found(TargetSchema.of(["y"], "kg"), labels, predicted)
    assert lines[1][1] == "4" and warned == []


def test_missing_labels_of_the_training(found):
    labels = {"a": ["1", "-999.0", "nd", "4"], "b": [-999, 1, 2, 3]}
    predicted = [[1, 0], [2, 1], [3, 2], [4, 3]]
    targets = TargetSchema.of(["a", "b"])
    lines, warned = found(targets, labels, predicted, missing=["-999", "ND"])
    assert [line[:3] for line in lines[1:]] == [["a", "2", "0"], ["b", "3", "0"]]
    assert warned == []


def test_classes(found):
    predicted = [[0.1], [0.9], [0.4], [0.2]]
    lines, warned = found(WORDS, {"y": ["no", "yes", "0", "maybe"]}, predicted)
    assert lines[0] == ["endpoint", "n", *Kind.BINARY.metrics]
    assert lines[1] == ["y", "3", *["1.000"] * 7, "3.000"]
    assert "cells such as 'maybe' are not labels" in warned[0]
    predicted = [[0.8, 0.2], [0.6, 0.4], [0.5, 0.5]]
    lines, warned = found(CLASSES, {"y": [0, 1, 7]}, predicted)
    assert lines[1][:4] == ["y", "2", "0.500", "0.500"]
    assert "cells such as '7' are not labels" in warned[0]
