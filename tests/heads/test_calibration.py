import numpy as np
import pytest

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads import calibration
from graphormer_plugin.heads.calibration import (
    calibration_figure,
    coverage,
    isotonic_curve,
    reliability,
    spread_scale,
)
from graphormer_plugin.heads.prediction import SpreadScale


def test_spread_scale(rng):
    """Errors of three times the predicted spread; too few labels change nothing."""
    std = rng.uniform(0.5, 2, (4000, 3))
    labels = 3 * std * rng.normal(size=(4000, 3))
    labels[9:, 1], labels[::2, 2] = np.nan, np.nan
    values = np.zeros_like(labels)
    found = spread_scale(values, std, labels)
    assert found(std)[:, [0, 2]] == pytest.approx(3 * std[:, [0, 2]], rel=0.1)
    assert (found.factor[1], found.floor[1]) == (1, 0)
    again = spread_scale(values, found(std), labels)
    assert again(found(std)) == pytest.approx(found(std), rel=1e-3)
    for unknown in (
        spread_scale(values, 0 * std, labels),
        spread_scale(labels, std, labels),
    ):
        assert (*unknown.factor, *unknown.floor) == (1, 1, 1, 0, 0, 0)


def test_spread_scale_is_the_likeliest(rng):
    """No pair of a fine grid makes the labels more likely."""
    std = rng.uniform(0.1, 1, (200, 1))
    labels = np.hypot(2 * std, 0.5) * rng.normal(size=(200, 1))
    found = spread_scale(np.zeros_like(labels), std, labels)

    def surprise(scale):
        variance = scale(std) ** 2
        return np.sum(np.log(variance) + labels**2 / variance)

    grid = [
        surprise(SpreadScale(factor, floor))
        for factor in np.linspace(0, 5, 101)
        for floor in np.linspace(0.01, 1.5, 150)
    ]
    assert surprise(found) <= min(grid) and surprise(found) > min(grid) - 0.1


def test_spread_of_two_members(rng):
    """Two that agree by chance do not widen the spread of all others."""
    members = rng.normal(size=(2, 300, 1))
    std, labels = members.std(0, ddof=1), rng.normal(size=(300, 1))
    found = spread_scale(members.mean(0), std, labels)
    errors = labels - members.mean(0)
    assert np.sqrt(np.mean((errors / std) ** 2)) > 10  # a factor alone
    assert found(std) == pytest.approx(np.sqrt(1.5), rel=0.25)


def test_isotonic_curve(rng):
    """Errors that grow faster than the spread; the scale alone where they do not."""
    std = rng.uniform(0.5, 2, 2000)
    for power in (1, 3):
        at, curve = isotonic_curve(std, std**power * rng.normal(size=2000))
        assert len(at) == len(curve) == calibration.KNOTS and (np.diff(at) > 0).all()
        if power == 1:
            assert (curve == 1).all()
        else:
            scaled = curve * at * np.sqrt(np.mean(std**4))
            np.testing.assert_allclose(scaled[3:-1], at[3:-1] ** 3, rtol=0.25)
            assert (np.diff(scaled) >= 0).all()
    for few in (std[:40], np.ones(100)):
        assert (isotonic_curve(few, few**3 * rng.normal(size=len(few)))[1] == 1).all()


def test_coverage(rng):
    errors = rng.normal(size=20000)
    found = coverage(errors, np.ones(20000))
    np.testing.assert_allclose(found, calibration.LEVELS, atol=0.02)
    assert (coverage(errors, np.full(20000, 0.5))[1:-1] < found[1:-1]).all()
    assert coverage(np.array([0.0, 1.0]), np.array([0.0, 1e-9]))[20] == 0.5


def test_reliability(rng):
    values = rng.uniform(size=20000)
    labels = (rng.uniform(size=20000) < values).astype(float)
    mean, share, counts = reliability(values, labels)
    np.testing.assert_allclose(mean, share, atol=0.04)
    assert counts.tolist() == [2000] * 10
    assert len(reliability(values[:3], labels[:3])[0]) == 3


def test_figure(rng):
    values, std = rng.normal(size=(50, 8)), np.ones((50, 8))
    labels = values + rng.normal(size=(50, 8))
    labels[:, 1] = np.nan
    targets = TargetSchema([f"t{number}" for number in range(8)])
    figure = calibration_figure(
        values, std, labels, targets, SpreadScale(np.full(8, 1.1), np.zeros(8))
    )
    # Targets without labels come last.
    assert [axis.get_title() for axis in figure.axes] == [f"t{n}" for n in "023456"]
    assert [len(axis.lines) for axis in figure.axes] == [3] * 6
    figure = calibration_figure(
        values[:, :2], std[:, :2], labels[:, :2], TargetSchema(["t0", "t1"])
    )
    assert [len(axis.lines) for axis in figure.axes] == [2, 1]
    binary = TargetSchema(["active"], kind="binary")
    chances = 1 / (1 + np.exp(-values[:, :1]))
    figure = calibration_figure(chances, None, 1.0 * (values[:, :1] > 0), binary)
    assert figure.axes[0].get_ylabel() == "share of class 1"
    assert calibration_figure(values, None, labels, targets) is None
    assert calibration_figure(values, std, np.nan * labels, targets) is None
