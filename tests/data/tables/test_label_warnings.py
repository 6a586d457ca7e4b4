"""Warnings about data that probably are a mistake."""

import logging

import numpy as np
import pytest

from graphormer_plugin.data import TargetSchema
from graphormer_plugin.data.tables.label_warnings import strange_label, warnings_about
from graphormer_plugin.tasks.graph_prediction import (
    GraphPredictionConfig,
    GraphPredictionTask,
)

SPLITS = {"train": np.array([0, 1, 2, 3]), "valid": np.array([4]), "test": [5]}
NAN = float("nan")


def warnings(columns, molecules=range(6), splits=SPLITS, extra=None, **targets):
    target = np.array(columns, dtype=float).T
    schema = TargetSchema.of(
        [f"y{number}" for number in range(len(columns))], **targets
    )
    return warnings_about(schema, target, splits, molecules, extra)


@pytest.mark.parametrize(
    "columns, text",
    [
        (
            [[5, 4, 3, 2, 1, 0], [0, 1, 1, 0, NAN, 1]],
            "y1 (5 labels) has only the labels 0 and 1 and is learned as a number; for "
            "classes give --target-kind binary",
        ),
        (
            [[-1, 1, 1, -1, NAN, 1], [-1, 1, 0, 0, 0, 0], [1] * 6],
            "y0 (5 labels) has only the labels -1 and 1 and is learned as a number; for "
            "classes write 0 in place of -1 and give --target-kind binary",
        ),
        (
            [[1, 2, 2, 1, 1, 1], [2, 0, 0, 2, 2, 2], [1, 2, 1, 2, NAN, 1]],
            "y1 (6 labels) has only the labels 0 and 2 and is learned as a number; for "
            "classes write 1 in place of 2 and give --target-kind binary; y0 (6 labels), "
            "y2 (5 labels) has only the labels 1 and 2 and is learned as a number; for "
            "classes write 0 in place of 1 and 1 in place of 2 and give --target-kind binary",
        ),
        (
            [[0, 1, 2] * 10],
            "y0 (30 labels) has only the labels 0, 1 and 2 and is learned as a number; for "
            "classes give --target-kind multiclass",
        ),
        # Few labels, measured values, and two molecules, are no classes.
        ([[0, 1, 2, 1, 0, 2]], ""),
        ([[0.5, 2, 2, 2, 2, 2], [1, 2, NAN, NAN, NAN, NAN]], ""),
    ],
)
def test_numbers_that_may_be_classes(columns, text):
    rows = range(len(columns[0]))
    found = warnings(columns, rows, {"train": np.array(rows)})
    assert found == ([text] if text else [])


def test_classes_are_classes():
    assert warnings([[0, 1, 1, 0, NAN, 1]], kind="binary") == []


def test_contradicting_labels():
    molecules = [7, 7, 7, 8, 8, 9]
    same = {"train": np.arange(6)}
    (text,) = warnings([[1, 1, 3, 5, 5, 6]], molecules, same, unit="eV")
    assert text.startswith("1 molecule with several rows and contradicting labels (3 ")
    assert "y0 differs by up to 2 eV" in text
    (text,) = warnings([[1, 1, 0, 0, 1, 1]], molecules, same, kind="binary")
    assert text.startswith("2 molecules") and "(5 rows)" in text
    # Missing labels, and float32's rounding, contradict nothing.
    assert warnings([[1, 1 + 1e-7, NAN, 5, NAN, 6]], molecules, same) == []


def test_same_molecule_in_train_and_elsewhere():
    (text,) = warnings([[1, 2, 3, 4, 1, 6]], [1, 2, 3, 4, 1, 6])
    assert text.startswith("1 of 1 row of valid is a molecule that train has too")
    assert "test" not in text.split(",")[0]
    assert text.endswith("; drop the duplicates, or give --split scaffold")
    _, text = warnings([[1, 2, 3, 4, 9, 6]], [1, 2, 3, 4, 1, 6])  # contradicting
    assert text.endswith(" better than they are; give --split scaffold")


def test_rows_of_a_molecule_with_other_columns():
    molecules, same = [7, 7, 7, 8, 8, 9], {"train": np.arange(6)}
    extra = np.array([[20, NAN], [40, NAN], [20, NAN], [20, 1], [20, 2], [20, 1]])
    assert warnings([[1, 2, 1, 5, 6, 6]], molecules, same, extra) == []
    (text,) = warnings([[1, 2, 4, 5, 6, 6]], molecules, same, extra)
    assert text.startswith("1 molecule with several rows and contradicting labels (2 ")
    (text,) = warnings([[1, 2, 3, 4, 1, 6]], [1, 2, 3, 4, 1, 6], extra=np.eye(6))
    assert text.endswith(" better than they are; give --split scaffold")


def test_molecules_are_compared_not_strings(prepared):
    rows = ["CCO,1", "OCC,2", *(f"{'C' * n},{n}" for n in range(3, 12))]
    store = prepared("smiles,y", rows)
    assert any("1 molecule with several rows" in text for text in store.warnings)
    again = prepared("smiles,y", rows)  # an open store says it again
    assert store.warnings == again.warnings
    changes = {"target_columns": ("y",), "extra_columns": ("T",)}
    rows = [f"{row},{number}" for number, row in enumerate(rows)]
    assert prepared("smiles,y,T", rows, **changes).warnings == []


def test_task_logs_them(prepared, tmp_path, caplog):
    prepared("smiles,y", [f"{'C' * n},{n % 2}" for n in range(1, 21)])
    cfg = GraphPredictionConfig(dataset_name=str(tmp_path / "table.csv"), seed=1)
    with caplog.at_level(logging.WARNING):
        assert GraphPredictionTask(cfg).store
    assert [r.getMessage() for r in caplog.records if "only the labels" in r.msg]


def test_columns_in_which_rows_of_a_molecule_differ():
    unread = {
        "solvent": ["O", "CCO", "O", "CCO", "O", "O"],
        "note": ["x"] * 6,
        "row": list("abcdef"),
    }
    schema = TargetSchema.of(["y"])
    labels, molecules = np.array([[1, 2, 1, 2, 5, 6.0]]).T, [7, 7, 8, 8, 9, 10]
    same = {"train": np.arange(6)}
    (text,) = warnings_about(schema, labels, same, molecules, unread=unread)
    assert "such rows differ in 'solvent' (molecules), which the model does not" in text
    assert "a second molecule per row is not read" in text


@pytest.mark.parametrize(
    "change, label",
    [
        ({7: -999}, "-999"),
        ({7: -999, 12: -999}, "-999"),
        ({9: 1e6}, "1000000"),
        ({}, ""),
    ],
)
def test_labels_far_from_all_others(change, label):
    values = np.random.default_rng(1).normal(size=160)
    for decades in (False, True):
        numbers = 10 ** values if decades else values.copy()
        numbers[[*change]] = [*change.values()]
        found = strange_label(numbers)
        if not label or decades and label == "1000000":
            assert found is None
            continue
        row, text = found
        assert row == min(change) and f"--missing-labels={label}" in text
        assert ("(2 rows)" in text) == (len(change) == 2)
