"""Predictions of what is learned, in the unit of the labels."""

import numpy as np
import pytest

from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.prediction import Interval, Prediction, in_unit

TARGETS = TargetSchema.of(["a", "b"])
LEARNED, STD = np.array([[1.0, 2], [0, -3]]), np.array([[0.3, 3], [0.1, 0]])


@pytest.mark.parametrize("scale", [*Scale][1:])
def test_back_in_the_unit(scale):
    """Median, standard deviation and 90 % of what is measured."""
    scales = [scale, Scale.IDENTITY]
    interval = Interval.of_scales(TARGETS, scales)
    learned = Prediction(LEARNED, STD, np.ones(2))
    found = in_unit(learned, TARGETS, scales, interval)
    assert np.array_equal(found.values[:, 1], LEARNED[:, 1])
    assert np.array_equal(found.std[:, 1], STD[:, 1])
    draws = np.random.default_rng(1).normal(size=(200_000, 1))
    measured = scale.inverse(LEARNED[:, 0] + STD[:, 0] * draws)
    assert found.values[:, 0] == pytest.approx(np.median(measured, 0), rel=0.01)
    assert found.std[:, 0] == pytest.approx(measured.std(0), rel=0.02)
    ends = np.quantile(measured, [0.05, 0.95], 0)
    for end, expected in zip((found.low, found.high), ends, strict=True):
        assert end[:, 0] == pytest.approx(expected, rel=0.01)
    means = in_unit(learned, TARGETS, scales, interval, mean=True).values[:, 0]
    assert means == pytest.approx(measured.mean(0), rel=0.01)
    assert LEARNED[0].tolist() == [1, 2]


def test_without_a_spread():
    """The median alone; a conformal interval has ends, which go through the scale."""
    learned = Prediction(LEARNED)
    found = in_unit(learned, TARGETS, [Scale.IDENTITY, Scale.LOG], mean=True)
    assert found.std is None and found.low is None and found.values[0, 1] == 100
    interval = Interval(0.8, np.array([2.0, 1.0]))
    found = in_unit(learned, TARGETS, [Scale.IDENTITY, Scale.LOG], interval)
    assert found.low[0].tolist() == [-1, 10] and found.high[0].tolist() == [3, 1000]
