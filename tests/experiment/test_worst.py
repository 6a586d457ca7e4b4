"""The worst predicted molecules and their neighbours."""

import numpy as np
import pytest

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment.results import Run
from graphormer_plugin.experiment.worst import (
    neighbours,
    relative_errors,
    worst_predicted,
)
from graphormer_plugin.heads.kernels import raw_features
from graphormer_plugin.heads.prediction import Prediction
from support.labelled_molecules import FewLabels

SPLIT = {"train": np.arange(4), "valid": np.array([4]), "test": np.array([7, 5, 6])}


def table_of(labels, **schema):
    names = [f"y{number}" for number in range(labels.shape[1])]
    return FewLabels(labels=labels, targets=TargetSchema(names, **schema))


def test_errors_in_units_of_each_target():
    labels = np.stack([np.arange(8.0), 1000 * np.arange(8.0)], 1)
    labels[6, 1] = np.nan
    error = np.zeros((8, 2))
    error[[7, 5, 6], 0], error[5, 1] = [1, -2, 0.5], 1000
    run = Run(SPLIT, {"head": Prediction(labels + error)}, "head")
    table, spread = table_of(labels), np.arange(4).std()
    expected = np.array([[1, 0], [2, 1], [0.5, np.nan]]) / spread
    assert relative_errors(table, run) == pytest.approx(expected, nan_ok=True)
    found = worst_predicted(table, [run])
    assert [(one.row, one.target) for one in found] == [(5, 0), (7, 0), (6, 0)]
    assert found[0].error == pytest.approx(2 / spread)
    # A molecule that two runs test counts once, where it is worse.
    other = Run(SPLIT, {"head": Prediction(labels + 1.5 * error)}, "head")
    found = worst_predicted(table, [run, other])
    assert [(one.run, one.row) for one in found] == [(1, 5), (1, 7), (1, 6)]


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_errors_of_classes(kind):
    labels = np.array([0.0, 1, 0, 1, 0, 1, 0, np.nan])[:, None]
    values = np.linspace(0.1, 0.8, 8)[:, None]
    schema = {"kind": kind}
    if kind == "multiclass":
        values, schema["num_classes"] = np.concatenate([1 - values, values], 1), 2
    run = Run(SPLIT, {"head": Prediction(values)}, "head")
    errors = relative_errors(table_of(labels, **schema), run)
    assert errors[:, 0] == pytest.approx([np.nan, 0.4, 0.7], nan_ok=True)
    found = worst_predicted(table_of(labels, **schema), [run])
    assert [one.row for one in found] == [6, 5]


def test_neighbours_have_a_label_in_train():
    smiles = ["CCCO", "CCCCO", "CCCCCO", "c1ccccc1", "CCCCCCCO", "C", "C", "CCCCCCO"]
    labels = np.ones((8, 1))
    labels[2] = np.nan
    prints = raw_features("fingerprint", None, smiles)
    run = Run(SPLIT, {"head": Prediction(labels + [[1]])}, "head")
    labels[5:7] = np.nan
    (worst,) = worst_predicted(table_of(labels), [run])
    found = neighbours(table_of(labels), run, prints, worst)
    assert [row for row, _ in found] == [1, 0, 3]
    likeness = [value for _, value in found]
    assert 1 > likeness[0] > likeness[1] > likeness[2] == 0
