"""Metrics of predictions."""

import math

import numpy as np
import pytest
from rdkit.ML.Scoring import Scoring
from sklearn import metrics

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.predictions.scores import (
    is_defined,
    metric_cells,
    score,
    scores,
    spread_text,
    text_table,
)

NAN = math.nan


def test_numbers():
    labels = np.array([1.0, 2.0, NAN, 4.0])
    predicted = np.array([1.0, 3.0, 9.0, 2.0])
    assert score("mae", predicted, labels) == pytest.approx(1)
    assert score("rmse", predicted, labels) == pytest.approx(math.sqrt(5 / 3))
    assert score("r2", predicted, labels) == pytest.approx(1 - 5 / (14 / 3))
    assert math.isnan(score("r2", predicted[:1], labels[:1]))
    assert math.isnan(score("mae", predicted[2:3], labels[2:3]))
    assert score("spearman", predicted, labels) == pytest.approx(0.5)
    assert math.isnan(score("spearman", np.ones(4), labels))
    assert math.isnan(score("rmse", np.array([1.0, np.inf, 0, 0]), labels))


def test_classes():
    labels = np.array([0.0, 1.0, 1.0, NAN])
    predicted = np.array([0.6, 0.4, 0.9, 0.1])
    assert score("roc_auc", predicted, labels) == pytest.approx(0.5)
    assert score("accuracy", predicted, labels) == pytest.approx(1 / 3)
    assert math.isnan(score("roc_auc", predicted[1:3], labels[1:3]))
    assert score("ap", predicted, labels) == pytest.approx((1 + 2 / 3) / 2)


def test_rare_classes(rng):
    """As scikit-learn and RDKit have them, with ties, at a cut-off between the classes."""
    labels = (rng.random(300) < 0.1).astype(float)
    predicted = (rng.random(300) + labels).round(2) / 2
    found = predicted > 0.3
    expected = {
        "mcc": metrics.matthews_corrcoef(labels, found),
        "f1": metrics.f1_score(labels, found),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, found),
    }
    ranked = sorted(zip(-predicted, labels))  # ties count against the model
    expected["bedroc"] = Scoring.CalcBEDROC(ranked, 1, 20)
    (expected["enrichment"],) = Scoring.CalcEnrichment(ranked, 1, [0.01])
    values = {name: score(name, predicted, labels, 0.3) for name in expected}
    assert values == pytest.approx(expected) and values["mcc"] > 0
    assert score("mcc", predicted, labels) != values["mcc"]
    assert math.isnan(score("bedroc", predicted, 0 * labels))
    assert score("enrichment", np.ones(4), np.array([1.0, 0, 0, 1])) == 0


def test_several_classes():
    labels = np.array([[0.0], [0.0], [2.0], [NAN]])
    predicted = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [1, 0, 0]])
    targets = TargetSchema.of(["y"], kind="multiclass", num_classes=3)
    assert scores(targets, predicted, labels, np.ones(1)) == {
        "accuracy": [pytest.approx(2 / 3)],
        "balanced_accuracy": [pytest.approx(3 / 4)],
        "log_loss": [pytest.approx(-np.log([0.5, 0.1, 0.6]).mean())],
    }
    assert is_defined("accuracy", labels)


def test_several_targets():
    labels = np.array([[0, 0], [1, 0], [0, NAN]], float)
    predicted = np.array([[0.1, 0.2], [0.8, 0.4], [0.9, 0.5]])
    targets = TargetSchema.of(["y", "z"], kind="binary")
    assert scores(targets, predicted, labels, np.ones(2))["accuracy"] == [
        pytest.approx(2 / 3),
        1.0,
    ]
    roc_auc, undefined = scores(targets, predicted, labels, np.ones(2))["roc_auc"]
    assert roc_auc == pytest.approx(0.5) and math.isnan(undefined)
    assert score("accuracy", np.array([0.4, 0.6]), np.array([0.0, 1])) == 1
    assert is_defined("roc_auc", labels)
    assert not is_defined("roc_auc", labels[:, 1:])


def test_values_with_their_spread():
    assert spread_text([1.0, 2.0, NAN], "mae") == "1.500 ± 0.707"
    assert spread_text([2.0], "mae") == "2.000" and spread_text([NAN], "mae") == "-"
    assert spread_text([1e-9, 2e-9], "rmse") == "1.5e-09 ± 7.07e-10"
    assert spread_text([0.00217], "mae") == "0.00217"
    assert spread_text([0.002], "r2") == "0.002" and spread_text([3, 4], "n") == "4"


def test_the_best_of_each_metric():
    rows = {
        "mean": {"n": [9], "mae": [1.0], "r2": [0.0], "spearman": [NAN]},
        "forest": {"n": [9], "mae": [0.5, 0.5], "r2": [0.6], "spearman": [0.5]},
        "head": {"n": [9], "mae": [0.4], "r2": [0.5], "spearman": [NAN]},
    }
    found = metric_cells(rows, ["n", "mae", "r2", "spearman"])
    best = {model: ["*" in cell for cell in cells] for model, *cells in found}
    assert best == {
        "mean": [False] * 4,
        "forest": [False, False, True, False],
        "head": [False, True, False, False],
    }
    header = ["", "n", "mae", "r2", "spearman"]
    table = text_table([header, *found])
    assert table.splitlines() == [
        "        n  mae            r2      spearman",
        "mean    9  1.000          0.000   -",
        "forest  9  0.500 ± 0.000  0.600*  0.500",
        "head    9  0.400*         0.500   -",
    ]
