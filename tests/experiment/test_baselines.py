"""The random forest and the mean."""

import warnings

import numpy as np
import pytest

from graphormer_plugin.data.graphs.descriptors import morgan_counts, rdkit_descriptors
from graphormer_plugin.experiment import baselines
from graphormer_plugin.experiment.baselines import forest_predictions, mean_labels

SMILES = [start + "C" * k for start in ("O", "N", "Cl") for k in range(1, 15)]
ALL = np.arange(len(SMILES))


@pytest.fixture(scope="module")
def table():
    return np.concatenate([morgan_counts(SMILES), rdkit_descriptors(SMILES)], 1)


@pytest.mark.parametrize("unit", [1, 1e-9])
def test_regression(table, unit):
    """scikit-learn takes labels of a variance below 2e-16 for equal labels."""
    labels = np.array([[unit * len(smiles), np.nan] for smiles in SMILES])
    labels[:3, 1] = 4.0
    train = np.arange(0, len(SMILES), 2)
    options = {"kind": "regression", "trees": 20, "seed": 1}
    found = forest_predictions(table, labels, train, ALL, **options)
    again = forest_predictions(table, labels, train, ALL[:3:-1], **options)
    np.testing.assert_allclose(found[:3:-1], again, rtol=1e-12)  # threads add trees
    error = np.abs(found[1::2, 0] - labels[1::2, 0]).mean()
    assert error < 0.5 * np.abs(labels[1::2, 0] - labels[train, 0].mean()).mean()
    assert (found[:, 1] == 4).all()  # two labels with one value
    assert mean_labels(labels) == pytest.approx([labels[:, 0].mean(), 4])


def test_classes(table):
    labels = np.array([[smiles[0] == "O"] for smiles in SMILES], float)
    train = np.arange(0, len(SMILES), 2)
    found = forest_predictions(
        table, labels, train, ALL, kind="binary", trees=20, seed=1
    )
    assert ((found > 0.5) == labels)[1::2].mean() > 0.9


def test_several_classes(table):
    """A label without weight is not seen; classes that are not seen have chance 0."""
    labels = np.array([["ONC".index(smiles[0])] for smiles in SMILES], float)
    labels[1] = np.nan
    train = np.arange(0, len(SMILES), 2)
    options = {"kind": "multiclass", "trees": 20, "seed": 1, "classes": 4}
    found = forest_predictions(table, labels, train, ALL, **options)
    assert found.shape == (len(SMILES), 4) and not found[:, 3].any()
    assert (found.argmax(1)[3::2] == labels[3::2, 0]).mean() > 0.9
    weights = np.where(labels == 1, 0.0, 1.0)
    found = forest_predictions(table, labels, train, ALL, weights=weights, **options)
    assert not found[:, 1].any()
    assert mean_labels(labels, 4) == pytest.approx([13 / 41, 14 / 41, 14 / 41, 0])


def test_a_forest_warns_of_nothing(monkeypatch, recwarn):
    """Its threads may lose the filters of warnings."""

    class Forest(baselines.RandomForestRegressor):
        def fit(self, *arguments):
            warnings.resetwarnings()
            warnings.warn("no filters", UserWarning, stacklevel=1)
            return super().fit(*arguments)

    monkeypatch.setattr(baselines, "RandomForestRegressor", Forest)
    filters, rows = warnings.filters[:], np.arange(8)
    forest_predictions(
        rows[:, None] / 2, rows[:, None], rows, rows, kind="regression", trees=2, seed=1
    )
    assert warnings.filters == filters and not recwarn


def test_forest_of_a_target_without_labels_that_count():
    table = np.arange(12.0)[:, None]
    labels = np.stack([np.arange(12.0), np.full(12, np.nan), np.arange(12.0)], 1)
    weights = np.ones((12, 3))
    weights[:, 2] = 0
    train = np.arange(8)
    found = forest_predictions(
        table, labels, train, train, kind="regression", trees=2, seed=1, weights=weights
    )
    assert np.isnan(found[:, 1:]).all() and not np.isnan(found[:, 0]).any()
    with warnings.catch_warnings(action="error"):
        assert np.array_equal(mean_labels(labels)[:2], [5.5, np.nan], equal_nan=True)


def test_forest_of_labels_beside_a_large_offset(rng):
    features, labels = rng.normal(size=(60, 4)), rng.normal(size=(60, 1))
    options = {"kind": "regression", "trees": 5, "seed": 1}
    train, test = np.arange(40), np.arange(40, 60)
    centred = labels - labels[train].mean()
    expected = forest_predictions(features, centred, train, test, **options)
    for offset in (1e7, -1e9):
        found = forest_predictions(features, centred + offset, train, test, **options)
        np.testing.assert_allclose(found - offset, expected, atol=1e-5)
