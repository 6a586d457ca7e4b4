"""Labels that are bounds, against integrals and against what is known without them."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.fitting import marginal_likelihood
from graphormer_plugin.workbench.fitting.bounds import pseudo_labels, size_beyond
from graphormer_plugin.workbench.fitting.gaussian_processes import GaussianProcesses
from support.heads import fitted, measured, molecules

GRID = np.linspace(-7, 7, 351)


@pytest.mark.parametrize("noise", [0.5, 1e-3])
@pytest.mark.parametrize("bounds, close", [((1, 0), 1e-3), ((-1, 1), 0.02)])
def test_moments_equal_integrals(bounds, close, noise):
    """A single bound beside an exact label is exact, two bounds nearly."""
    matrix = np.array([[1.0, 0.6], [0.6, 0.8]])
    labels, noises = np.array([0.7, -0.2]), np.array([noise, 0.3])
    found, variance = pseudo_labels(matrix, labels, noises, np.array(bounds, np.int8))
    gain = matrix @ np.linalg.inv(matrix + np.diag(variance))
    mean, covariance = gain @ found, matrix - gain @ matrix
    values = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), -1)
    density = multivariate_normal([0, 0], matrix).pdf(values)
    for at, sign in enumerate(bounds):
        z = (values[..., at] - labels[at]) / np.sqrt(noises[at])
        density *= norm.cdf(sign * z) if sign else norm.pdf(z)
    density /= density.sum()
    expected = np.einsum("ij,ijk->k", density, values)
    squares = np.einsum("ij,ijk->k", density, (values - expected) ** 2)
    assert mean == pytest.approx(expected, abs=close)
    assert np.diag(covariance) == pytest.approx(squares, abs=close)


def test_bounds_that_say_nothing_or_contradict(rng):
    """Exact labels stay; all numbers are finite, and a far bound is without weight."""
    labels, noise = rng.normal(size=30), np.full(30, 1e-4)
    bounds = (np.arange(30) % 3 - 1).astype(np.int8)
    matrix = np.full((30, 30), 0.9) + 0.1 * np.eye(30)
    for size in (0.1, 1e3, 1e5, 100):
        for sign in (1, -1):
            limits = np.where(bounds, labels + sign * size * bounds, labels)
            found, variance = pseudo_labels(matrix, limits, noise, bounds)
            assert np.array_equal(found[bounds == 0], labels[bounds == 0])
            assert np.array_equal(variance[bounds == 0], noise[bounds == 0])
            assert np.isfinite(found).all() and (variance >= 0.99 * noise).all()
            if sign * size > 100:  # as if they were exact: a value beyond is unlikely
                assert found == pytest.approx(limits, rel=1e-5)
                assert variance == pytest.approx(noise, rel=0.01)
    assert variance[bounds != 0].min() > 1e5


def test_size_of_an_unknown_error(rng):
    labels = 1 + 2 * rng.normal(size=400_000)
    for limit, sign in ((2.5, 1), (-3, 1), (0, -1)):
        beyond = labels[sign * (labels - limit) > 0] - 1
        found = size_beyond(np.ones(1), 2 * np.ones(1), limit, np.int8(sign))
        assert found[0] == pytest.approx(np.sqrt(np.mean(beyond**2)), rel=0.01)
    assert size_beyond(np.ones(1), np.ones(1), 1e9, np.int8(1)).tolist() > [1e8]


def test_a_head_keeps_bounds(rng):
    """Better than without them, or than with values in their place; its spread is right.
    Bounds that hold nothing back give the head without them."""
    vectors = rng.normal(size=(700, 3)).astype(np.float32)
    y = np.sin(vectors[:, 0]) + vectors[:, 1] + 0.3 * rng.normal(size=700)
    train, y_train, limit = vectors[:300], y[:300, None], np.quantile(y[:300], 0.6)
    bounds = (y_train > limit).astype(np.int8)
    cut = np.minimum(y_train, limit)

    def fit(labels, bounds=None, sign=1):
        bounds = None if bounds is None else sign * bounds
        raw = {"vectors": sign * train}
        head = fitted(raw, molecules(300), sign * labels, bounds=bounds)
        found = head.predict_features({"vectors": sign * vectors[300:]})
        return sign * found.values[:, 0], found.std[:, 0]

    def error(values):
        return np.sqrt(np.mean((values - y[300:]) ** 2))

    kept, std = fit(cut, bounds)
    others = [fit(np.where(bounds, np.nan, cut))[0], fit(cut)[0]]
    assert error(kept) < 0.75 * min(map(error, others))
    assert error(kept) < 1.15 * error(fit(y_train)[0])
    inside = np.abs(kept - y[300:]) < norm.ppf(0.95) * std
    assert 0.84 < inside.mean() < 0.96
    assert fit(cut, bounds, -1)[0] == pytest.approx(kept, abs=1e-3)
    none = np.zeros_like(bounds)
    assert np.array_equal(fit(y_train, none)[0], fit(y_train)[0])
    with pytest.raises(ValueError, match="target y0 has fewer than 2 different labels"):
        fit(y_train, none + 1)


@pytest.mark.parametrize("count, beyond", [(120, 0.2), (200, 0.2), (1, 1e6)])
def test_bounds_beyond_all_labels_give_the_head_without_them(count, beyond, rng):
    vectors = rng.normal(size=(500, 3)).astype(np.float32)
    y = (vectors[:, 0] + 0.1 * rng.normal(size=500))[:, None]
    train, below = {"vectors": vectors[:240]}, np.arange(240)[:, None] < count
    limits = np.where(below, y.max() + beyond, y[:240])
    found = []
    for labels, bounds in (
        (np.where(below, np.nan, limits), None),
        (limits, -below.astype(np.int8)),
    ):
        head = fitted(train, molecules(240), labels, bounds=bounds)
        found.append(head.predict_features({"vectors": vectors[240:]}))
    dropped, kept = found
    assert kept.values == pytest.approx(dropped.values, abs=0.05)
    assert kept.std == pytest.approx(dropped.std, abs=0.03)


def test_a_sample_of_few_exact_labels_has_them_all(rng, monkeypatch):
    """The hyper-parameters come from exact labels first."""
    vectors = rng.normal(size=(200, 3)).astype(np.float32)
    y, bounds = vectors[:, :1].astype(float), np.ones((200, 1), np.int8)
    bounds[:4] = 0
    fit, seen = marginal_likelihood.fit, []

    def count(blocks, compared, given):
        seen.append(len(given[0][0]))
        return fit(blocks, compared, given)

    monkeypatch.setattr(marginal_likelihood, "fit", count)
    raw = {"vectors": vectors}
    rest = ["vectors"], measured(raw, y, bounds), rng
    GaussianProcesses(TargetSchema.of(["y"]), raw, *rest)._fitted_kernel([0], 12)
    assert seen == [4, 12]
