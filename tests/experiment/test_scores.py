"""Metrics of predictions."""

import math

import numpy as np
import pytest

from graphormer_plugin.experiment.scores import (
    MAIN,
    main_score,
    score,
    scores,
    spread,
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


def test_classes():
    labels = np.array([0.0, 1.0, 1.0, NAN])
    predicted = np.array([0.6, 0.4, 0.9, 0.1])
    assert score("roc_auc", predicted, labels) == pytest.approx(0.5)
    assert score("accuracy", predicted, labels) == pytest.approx(1 / 3)
    assert math.isnan(score("roc_auc", predicted[1:3], labels[1:3]))
    assert score("ap", predicted, labels) == pytest.approx((1 + 2 / 3) / 2)


def test_several_classes():
    labels = np.array([[0.0], [0.0], [2.0], [NAN]])
    predicted = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [1, 0, 0]])
    assert scores("multiclass", predicted, labels) == {
        "accuracy": [pytest.approx(2 / 3)],
        "balanced_accuracy": [pytest.approx(3 / 4)],
        "log_loss": [pytest.approx(-np.log([0.5, 0.1, 0.6]).mean())],
    }
    assert main_score("multiclass", predicted, labels) == pytest.approx(2 / 3)
    assert MAIN["multiclass"].is_defined(labels)


def test_several_targets():
    labels = np.array([[0, 0], [1, 0], [0, NAN]], float)
    predicted = np.array([[0.1, 0.2], [0.8, 0.4], [0.9, 0.5]])
    assert scores("binary", predicted, labels)["accuracy"] == [
        pytest.approx(2 / 3),
        1.0,
    ]
    assert main_score("binary", predicted, labels) == pytest.approx(0.5)
    assert MAIN["binary"].is_defined(labels)
    assert not MAIN["binary"].is_defined(labels[:, 1:])


def test_better():
    assert MAIN["binary"].is_better(0.8, 0.7) and MAIN["regression"].is_better(0.7, 0.8)
    assert MAIN["binary"].is_better(0.1, NAN) and not MAIN["binary"].is_better(NAN, 0.1)


def test_table():
    assert spread([1.0, 2.0, NAN], "mae") == "1.500 ± 0.707"
    assert spread([2.0], "mae") == "2.000" and spread([NAN], "mae") == "-"
    assert spread([1e-9, 2e-9], "rmse") == "1.5e-09 ± 7.07e-10"
    assert spread([0.00217], "mae") == "0.00217" and spread([0.002], "r2") == "0.002"
    rows = {"mean": {"mae": [1.0]}, "forest": {"mae": [0.5, 0.5]}}
    assert text_table(rows, ["mae"]).splitlines() == [
        "        mae",
        "mean    1.000",
        "forest  0.500 ± 0.000",
    ]
