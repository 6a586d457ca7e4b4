"""Labels that are bounds, against integrals and against what is known without them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from graphormer_plugin.data.tables.labels import label_ends
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.fitting import marginal_likelihood
from graphormer_plugin.workbench.fitting.bounds import (
    located,
    pseudo_labels,
    size_beyond,
    truncated_moments,
)
from graphormer_plugin.workbench.fitting.gaussian_processes import GaussianProcesses
from support.heads import fitted, measured, molecules

GRID = np.linspace(-7, 7, 351)
INF = np.inf


@pytest.mark.parametrize(
    "low, high",
    zip(
        [-1, -INF, -INF, 8, 37, -1e5, 0.3],
        [2, -3, INF, 9, INF, -1e5 + 1e-6, 0.3 + 1e-7],
    ),
)
def test_truncated_moments_equal_integrals(low, high):
    """Of the density by its largest value, around that."""
    peak = np.clip(0, low, high)
    reach = 40 / (1 + abs(peak))
    ends = np.clip([low - peak, high - peak], -reach, reach)
    width = np.ptp(ends)

    def moment(power):
        def integrand(x):
            return (x / width) ** power * np.exp(-peak * x - x * x / 2)

        return quad(integrand, *ends, epsabs=1e-13)[0]

    first, second = moment(1) / moment(0), moment(2) / moment(0)
    mean, variance = truncated_moments(np.array([low]), np.array([high]))
    close = {"rel": 1e-4, "abs": 1e-11 * abs(peak) + 1e-14}
    assert mean[0] - peak == pytest.approx(width * first, **close)
    assert variance[0] == pytest.approx(width**2 * (second - first**2), rel=1e-6)


@pytest.mark.parametrize("noise", [0.5, 1e-3])
@pytest.mark.parametrize(
    "bounds, close",
    [((INF, 0), 1e-3), ((-INF, INF), 0.02), ((0.4, 0), 1e-3), ((1, 0.2), 0.02)],
)
def test_moments_equal_integrals(bounds, close, noise):
    """A single bound beside an exact label is exact, two bounds nearly."""
    matrix = np.array([[1.0, 0.6], [0.6, 0.8]])
    labels, noises = np.array([0.7, -0.2]), np.array([noise, 0.3])
    found, variance = pseudo_labels(matrix, labels, noises, np.array(bounds))
    gain = matrix @ np.linalg.inv(matrix + np.diag(variance))
    mean, covariance = gain @ found, matrix - gain @ matrix
    values = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), -1)
    density = multivariate_normal([0, 0], matrix).pdf(values)
    for at, ends in enumerate(zip(*label_ends(labels, np.array(bounds)))):
        z = [(end - values[..., at]) / np.sqrt(noises[at]) for end in ends]
        density *= norm.cdf(z[1]) - norm.cdf(z[0]) if bounds[at] else norm.pdf(z[0])
    density /= density.sum()
    expected = np.einsum("ij,ijk->k", density, values)
    squares = np.einsum("ij,ijk->k", density, (values - expected) ** 2)
    assert mean == pytest.approx(expected, abs=close)
    assert np.diag(covariance) == pytest.approx(squares, abs=close)


def test_bounds_that_say_nothing_or_contradict(rng):
    """Exact labels stay; all numbers are finite, and a far bound is without weight."""
    labels, noise = rng.normal(size=30), np.full(30, 1e-4)
    signs = np.arange(30) % 3 - 1
    bounds = np.choose(signs + 1, [-INF, 0, INF])
    matrix = np.full((30, 30), 0.9) + 0.1 * np.eye(30)
    for size in (0.1, 1e3, 1e5, 100):
        for sign in (1, -1):
            limits = labels + sign * size * signs
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
    for limit, bound in ((2.5, INF), (-3, INF), (0, -INF), (3, 2)):
        low, high = label_ends(np.array([limit]), np.array([bound]))
        beyond = labels[(low < labels) & (labels < high)] - 1
        found = size_beyond(
            np.ones(1), 2 * np.ones(1), np.array([limit]), np.array([bound])
        )
        assert found[0] == pytest.approx(np.sqrt(np.mean(beyond**2)), rel=0.01)
    one = np.ones(1)
    assert size_beyond(one, one, 1e9 * one, INF * one).tolist() > [1e8]


def test_a_head_keeps_bounds(rng):
    """Better than without them, or than with values in their place; its spread is right.
    Bounds that hold nothing back give the head without them."""
    vectors = rng.normal(size=(700, 3)).astype(np.float32)
    y = np.sin(vectors[:, 0]) + vectors[:, 1] + 0.3 * rng.normal(size=700)
    train, y_train, limit = vectors[:300], y[:300, None], np.quantile(y[:300], 0.6)
    bounds = np.where(y_train > limit, INF, 0)
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
        fit(y_train, none + INF)


@pytest.mark.parametrize("count, beyond", [(120, 0.2), (200, 0.2), (1, 1e6)])
def test_bounds_beyond_all_labels_give_the_head_without_them(count, beyond, rng):
    vectors = rng.normal(size=(500, 3)).astype(np.float32)
    y = (vectors[:, 0] + 0.1 * rng.normal(size=500))[:, None]
    train, below = {"vectors": vectors[:240]}, np.arange(240)[:, None] < count
    limits = np.where(below, y.max() + beyond, y[:240])
    found = []
    for labels, bounds in (
        (np.where(below, np.nan, limits), None),
        (limits, np.where(below, -INF, 0)),
    ):
        head = fitted(train, molecules(240), labels, bounds=bounds)
        found.append(head.predict_features({"vectors": vectors[240:]}))
    dropped, kept = found
    assert kept.values == pytest.approx(dropped.values, abs=0.05)
    assert kept.std == pytest.approx(dropped.std, abs=0.03)


def test_a_sample_of_few_exact_labels_has_them_all(rng, monkeypatch):
    """The hyper-parameters come from exact labels first."""
    vectors = rng.normal(size=(200, 3)).astype(np.float32)
    y, bounds = vectors[:, :1].astype(float), np.full((200, 1), INF)
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


def test_intervals_of_a_head(rng):
    """Narrow ones give the head of exact labels and wide ones the head without them, whatever
    their middles; bins of a standard deviation keep the order of the molecules."""
    vectors = rng.normal(size=(400, 3)).astype(np.float32)
    y = (np.sin(vectors[:, 0]) + vectors[:, 1] + 0.2 * rng.normal(size=400))[:, None]
    train, exact = {"vectors": vectors[:200]}, np.arange(200)[:, None] < 60

    def fit(labels, bounds=None):
        head = fitted(train, molecules(200), labels, bounds=bounds)
        return head.predict_features({"vectors": vectors[200:]})

    whole, few = fit(y[:200]), fit(np.where(exact, y[:200], np.nan))
    narrow = fit(y[:200], np.full((200, 1), 1e-6))
    middles = np.where(exact, y[:200], rng.uniform(-300, 300, (200, 1)))
    wide = fit(middles, np.where(exact, 0, 1e4))
    binned = fit(np.floor(y[:200]) + 0.5, np.full((200, 1), 0.5))
    for found, expected, close in ((narrow, whole, 1e-3), (wide, few, 0.02)):
        assert found.values == pytest.approx(expected.values, abs=close)
        assert found.std == pytest.approx(expected.std, rel=0.05)
    error = np.sqrt(np.mean((binned.values - y[200:]) ** 2))
    assert error < 1.2 * np.sqrt(np.mean((whole.values - y[200:]) ** 2))
    assert binned.std.mean() < 1.3 * whole.std.mean()


def test_located_labels():
    labels = np.array([[1.0, 2, 3, 500, np.nan, 2, 7]]).T
    bounds = np.array([[0, 0.5, 0.1, 600, 0, INF, -INF]]).T
    assert located(labels, bounds)[:, 0].tolist() == [1, 1, 1, 0, 0, 0, 0]
