from statistics import NormalDist

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.gp import interpolated_factors
from graphormer_plugin.estimators.prediction import SpreadScale
from graphormer_plugin.workbench.fitting import calibration
from graphormer_plugin.workbench.fitting.calibration import (
    best_cut_off,
    calibration_figure,
    conformal_factor,
    coverage,
    fitted_factors,
    least_scores,
    reliability,
    spread_scale,
    spread_scores,
)


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
    # The prior adds to the floor once more.
    assert again(found(std)) == pytest.approx(found(std), rel=0.03)
    for unknown in (
        spread_scale(values, 0 * std, labels),
        spread_scale(labels, std, labels),
    ):
        assert (*unknown.factor, *unknown.floor) == (1, 1, 1, 0, 0, 0)


def test_spread_scale_is_the_likeliest(rng):
    """No pair of a fine grid makes the labels more likely, with the prior."""
    std = rng.uniform(0.1, 1, (200, 1))
    labels = np.hypot(2 * std, 0.5) * rng.normal(size=(200, 1))
    found = spread_scale(np.zeros_like(labels), std, labels)

    def surprise(scale):
        variance = scale(std) ** 2
        parts = np.array([scale.factor**2 * np.mean(std**2), scale.floor**2])
        prior = 2 * np.log(parts / parts.sum()).sum()
        return np.sum(np.log(variance) + labels**2 / variance) - prior

    grid = [
        surprise(SpreadScale(factor, floor))
        for factor in np.linspace(0.01, 5, 101)
        for floor in np.linspace(0.01, 1.5, 150)
    ]
    assert surprise(found) <= min(grid) and surprise(found) > min(grid) - 0.1


@pytest.mark.parametrize("coverage, count", [(0.9, 9), (0.9, 44), (0.5, 4), (0.95, 60)])
def test_conformal_factor(rng, coverage, count):
    """Its guarantee, for scores of any distribution: coverage to coverage + 1 / (n + 1)."""
    scores = rng.standard_cauchy((40_000, count + 1)) ** 2
    factors = np.array([conformal_factor(row[1:], coverage) for row in scores])
    error = 4 * np.sqrt(coverage * (1 - coverage) / len(scores))
    covered = (scores[:, 0] <= factors).mean() - coverage
    assert -error < covered < 1 / (count + 1) + error
    least = least_scores(coverage)
    assert np.isfinite(conformal_factor(scores[0, :1].repeat(least), coverage))
    assert conformal_factor(scores[0, :1].repeat(least - 1), coverage) == np.inf


def test_spread_of_two_members(rng):
    """Two that agree by chance do not widen the spread of all others."""
    members = rng.normal(size=(2, 300, 1))
    std, labels = members.std(0, ddof=1), rng.normal(size=(300, 1))
    found = spread_scale(members.mean(0), std, labels)
    errors = labels - members.mean(0)
    assert np.sqrt(np.mean((errors / std) ** 2)) > 10  # a factor alone
    assert found(std) == pytest.approx(np.sqrt(1.5), rel=0.25)


def test_a_dozen_labels_keep_different_spreads():
    """The errors need not follow the spread."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        std, labels = rng.uniform(0.1, 1, (2, 12, 1))
        found = spread_scale(0 * labels, std, labels)(std)
        assert found.max() > 1.15 * found.min()


def test_spread_curves(rng):
    """Errors that grow with the predicted value and with the spread; a dozen labels or
    equal spreads change little."""
    values, std = rng.uniform(-1, 1, 4000), rng.uniform(0.5, 2, 4000)
    true, ones = std**2 * np.exp(values), np.ones(4000)
    at, curve = fitted_factors(values, std, true * rng.normal(size=4000), ones)
    assert at.shape == curve.shape == (2, calibration.KNOTS)
    found = std * interpolated_factors(at, curve, values, std)
    found *= np.exp(np.mean(np.log(true / found)))
    np.testing.assert_allclose(found, true, rtol=0.2)
    few = slice(12)
    for spread in (std[few], np.ones(12)):
        errors = spread * rng.normal(size=12)
        at, curve = fitted_factors(values[few], spread, errors, ones[few])
        found = interpolated_factors(at, curve, values, std)
        assert np.ptp(found) < 0.2 * found.mean()
    assert (fitted_factors(values, std, 0 * std, ones)[1] == 1).all()


def test_spread_scores(rng):
    """Against their definitions, in float64."""
    std = rng.uniform(0.5, 2, 200)
    errors = 1.5 * std * rng.normal(size=200)
    found = spread_scores(errors, std)
    assert found["coverage90"] == np.mean(np.abs(errors / std) <= 1.6448536269514722)
    levels = np.linspace(0, 1, 41)
    within = [
        np.mean(np.abs(errors / std) <= NormalDist().inv_cdf((1 + level) / 2))
        for level in levels[:-1]
    ]
    gaps = np.abs(np.array([*within, 1]) - levels)
    area = sum((gaps[1:] + gaps[:-1]) / 2) / 40
    assert found["miscalibration"] == pytest.approx(area, rel=1e-12)
    parts = np.argsort(std).reshape(10, 20)
    rms = np.sqrt(np.mean([std[parts] ** 2, errors[parts] ** 2], 2))
    ence = np.mean(np.abs(rms[0] - rms[1]) / rms[0])
    assert found["ence"] == pytest.approx(ence, rel=1e-12)
    density = np.exp(-0.5 * (errors / std) ** 2) / np.sqrt(2 * np.pi) / std
    assert found["nll"] == pytest.approx(-np.log(density).mean(), rel=1e-12)
    ranks = [np.argsort(np.argsort(x)) for x in (std, np.abs(errors))]
    rank = np.corrcoef(ranks)[0, 1]
    assert found["rank_of_error"] == pytest.approx(rank, rel=1e-12)
    unknown = spread_scores(np.append(errors, np.nan), np.append(std, 1))
    assert unknown == found
    for none in (spread_scores(errors[:1], std[:1]), spread_scores(errors, 0 * std)):
        assert np.isnan([*none.values()]).all()
    assert np.isnan(spread_scores(errors, np.ones(200))["rank_of_error"])


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
    targets = TargetSchema.of([f"t{number}" for number in range(8)])
    figure = calibration_figure(values, std, labels, targets)
    # Targets without labels come last.
    assert [axis.get_title() for axis in figure.axes] == [f"t{n}" for n in "023456"]
    figure = calibration_figure(
        values[:, :2], std[:, :2], labels[:, :2], TargetSchema.of(["t0", "t1"])
    )
    assert [len(axis.lines) for axis in figure.axes] == [2, 1]
    binary = TargetSchema.of(["active"], kind="binary")
    chances = 1 / (1 + np.exp(-values[:, :1]))
    figure = calibration_figure(chances, None, 1.0 * (values[:, :1] > 0), binary)
    assert figure.axes[0].get_ylabel() == "share of class 1"
    assert calibration_figure(values, None, labels, targets) is None
    assert calibration_figure(values, std, np.nan * labels, targets) is None


def test_the_cut_off_between_two_classes(rng):
    """The highest MCC of all, or the middle with few labels or equal probabilities."""
    labels = (rng.random(400) < 0.15).astype(float)
    values = 0.4 * labels + 0.5 * rng.random(400)
    cut = best_cut_off(np.append(values, 0.9), np.append(labels, np.nan))
    every = [matthews_corrcoef(labels, values > x) for x in np.sort(values)]
    assert matthews_corrcoef(labels, values > cut) == pytest.approx(max(every))
    assert best_cut_off(values[:20], labels[:20]) == 0.5
    assert best_cut_off(np.ones(400), labels) == 0.5
