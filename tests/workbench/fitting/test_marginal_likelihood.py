"""The marginal likelihood, against scikit-learn and finite differences."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from graphormer_plugin.estimators.kernels import Reference
from graphormer_plugin.workbench.fitting import marginal_likelihood
from support.heads import ALL, features


def test_marginal_likelihood_equals_scikit_learn(rng):
    """And its gradient; the optimum is as good as scikit-learn's."""
    x = rng.normal(size=(30, 3))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=30)
    y = (y - y.mean()) / y.std()
    squares = ((x[:, None] - x) ** 2).mean(2)
    kernel = ConstantKernel(1.0) * Matern(1.0, nu=2.5) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, alpha=marginal_likelihood.JITTER)
    process.fit(x, y)
    one = marginal_likelihood.fit(
        ["vectors"], [squares], [(np.arange(30), y, np.ones(30), np.zeros(30))]
    )
    theta = np.log([one.weights[0], one.lengths[0] * np.sqrt(3), one.noise])
    best = process.log_marginal_likelihood_value_
    assert process.log_marginal_likelihood(theta) == pytest.approx(best, abs=1e-3)
    matrix = process.kernel_(x) - process.kernel_.k2.noise_level * np.eye(30)
    value, slope = marginal_likelihood.log_likelihood(
        matrix, y, np.full(30, process.kernel_.k2.noise_level)
    )
    assert value == pytest.approx(best, abs=1e-6)
    _, gradient = process.log_marginal_likelihood(
        process.kernel_.theta, eval_gradient=True
    )
    noise_slope = process.kernel_.k2.noise_level * slope(np.ones(30))
    assert noise_slope == pytest.approx(gradient[-1], abs=1e-6)


def test_gradient(rng):
    """Finite differences of the sum over two targets with missing labels."""
    smiles, raw = features(24, rng)
    compared = [Reference(name, raw[name]).compare(raw[name]) for name in ALL]
    y = rng.normal(size=24)
    ratio = rng.uniform(0.5, 2, 24)
    known = rng.uniform(0, 0.5, 24)
    some = slice(5, 20)
    targets = [
        (np.arange(24), y, ratio, 0 * known),
        (np.arange(24)[some], y[some], ratio[some], known[some]),
    ]
    seen = {}

    def record(loss, start, **options):
        step, base = 1e-5, loss(start + 0.1)[1]
        for at in range(len(start)):
            moved = np.eye(len(start))[at] * step
            rise = loss(start + 0.1 + moved)[0] - loss(start + 0.1 - moved)[0]
            seen[at] = (base[at], rise / (2 * step))
        return type("Result", (), {"x": start})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginal_likelihood, "minimize", record)
        marginal_likelihood.fit(ALL, compared, targets)
    assert len(seen) == 6
    for exact, numeric in seen.values():
        assert exact == pytest.approx(numeric, rel=1e-5, abs=1e-5)
