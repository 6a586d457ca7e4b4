"""Columns of predictions: the digits of their numbers."""

import json

import numpy as np
import pytest

from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.targets import Kind, Target, TargetSchema
from graphormer_plugin.estimators.prediction import Prediction, combined, values_of
from graphormer_plugin.inference.prediction_columns import (
    VALIDATED,
    array_column,
    free_names,
    label_column,
    prediction_columns,
)


@pytest.mark.parametrize("std", [1.3, 2e-5, 4e6])
@pytest.mark.parametrize("ratio", [0.0, -7.0, 1e3, -1e7])
def test_the_standardised_value_is_read_back(ratio, std, rng):
    """It has the digits of a float32, however large the value is."""
    mean = ratio * std
    scaled = rng.normal(size=200).astype(np.float32)
    values = scaled.astype(np.float64)[:, None] * std + mean
    targets = TargetSchema.of(["y"], mean=[mean], std=[std])
    columns = prediction_columns(targets, values, labels=values, layout=VALIDATED)
    assert [column.name for column in columns] == ["y", "y_target"]
    for column in columns:
        read = (np.array(column.texts, np.float64) - mean) / std
        np.testing.assert_allclose(read, scaled, atol=np.finfo(np.float32).eps / 2)


def test_digits_of_other_numbers():
    """Seven, of probabilities, spreads, and of what has no known spread."""
    third = np.full((1, 1), 1 / 3)
    for targets in (TargetSchema.of(["y"]), TargetSchema.of(["y"], kind="binary")):
        (column,) = prediction_columns(targets, third)
        assert column.texts == ["0.3333333"]
    targets = TargetSchema.of(["y"], mean=[0.0], std=[1e-3])
    value, std, domain = prediction_columns(targets, third, third, third[:, 0])
    assert [c.texts[0] for c in (std, domain)] == ["0.3333333"] * 2
    assert value.texts == ["0.3333333333"] and value.cells == [1 / 3]  # a value
    logs, *_ = prediction_columns(targets.in_unit([Scale.LOG]), third * 1e9)
    assert logs.texts == ["3.333333e+08"]


def test_the_class_of_several_models(rng):
    """The highest mean probability, and the spread of this probability."""
    members = rng.dirichlet(np.ones(3), size=(2, 40))
    found = combined([Prediction(member) for member in members])
    targets = TargetSchema.of(["kind"], kind="multiclass", num_classes=3)
    value, spread, *others = prediction_columns(targets, *found)
    names = ["kind", "kind_std", *(f"kind_probability_{k}" for k in range(3))]
    assert [column.name for column in (value, spread, *others)] == names
    probabilities = np.array([column.texts for column in others], float).T
    np.testing.assert_allclose(probabilities, members.mean(0), rtol=1e-6)
    best = members.mean(0).argmax(1)
    assert all((best != member.argmax(1)).any() for member in members)
    assert [*map(int, value.texts)] == best.tolist()
    expected = members.std(0, ddof=1)[np.arange(40), best]
    np.testing.assert_allclose([*map(float, spread.texts)], expected, rtol=1e-6)


def test_probabilities():
    binary = TargetSchema.of(["a"], kind="binary")
    output = np.array([[-1e4], [0.0], [1e4]])
    assert values_of(output, binary)[:, 0].tolist() == [0.0, 0.5, 1.0]


def test_missing_labels_are_empty():
    classes = Target("y", kind=Kind.MULTICLASS, num_classes=2)
    assert label_column(np.array([0, 1, -1]), classes).texts == ["0", "1", ""]
    assert label_column(np.array([0.5, np.nan]), Target("y")).texts == ["0.5", ""]


def test_an_array_is_a_nested_list_whose_text_is_json():
    (cell,) = array_column("pairs", [np.array([[0, 12, 1 / 3, -1e-9]])], 2).cells
    assert cell == [[0, 12, 0.3333333, -1e-9]]
    assert str(cell) == json.dumps(cell)


def test_names_of_the_input_and_of_each_other_are_not_free():
    names = free_names(["y", "y", "z"], ["y", "y_predicted"])
    assert names == ["y_predicted_predicted", "y_predicted_predicted_predicted", "z"]
