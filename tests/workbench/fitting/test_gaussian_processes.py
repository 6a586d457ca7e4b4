"""Solutions of several targets, against their definition."""

import numpy as np
import pytest

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.fitting import (
    calibration,
    gaussian_processes,
    marginal_likelihood,
    solver,
)
from graphormer_plugin.workbench.fitting.marginal_likelihood import Hyperparameters
from support.heads import ALL, features, fitted, labels, measured, predictions_of


def processes_of(y, raw, seed=1, kind=gaussian_processes.GaussianProcesses):
    """Of targets with exact labels of equal weight, on vectors."""
    rng = np.random.default_rng(seed)
    schema = TargetSchema.of([f"y{column}" for column in range(y.shape[1])])
    return kind(schema, raw, ["vectors"], measured(raw, y), rng)


@pytest.mark.parametrize("first_stage", [False, True])
def test_equal_seeds_give_equal_solutions(rng, first_stage):
    """Wherever the kernels lie in memory; the seed draws the molecules of a variance."""
    _, raw = features(40, rng, ["vectors"])
    y = np.concatenate([labels(raw, rng) for _ in range(3)], 1)

    class Given(gaussian_processes.GaussianProcesses):
        """With equal kernels for each target, and 15 molecules for a variance."""

        def _kernels(self, *_):
            ones = np.ones((2, len(self.blocks)))
            kernels = [Hyperparameters(*ones, 0.1) for _ in range(3)]
            return sorted(kernels, key=id, reverse=self.falling)

        def _solver(self, _):
            return super()._solver(solver.SPREAD_NUMBERS // 15**2)

    def solved(seed, falling):
        process = processes_of(y, raw, seed, Given)
        process.falling = falling
        if first_stage:
            assert process.choose_kernels() is not None
        else:
            process.kernels = process._kernels()
        found = process.solve()
        assert found["spread_of_target"].tolist() == [0, 1, 2]
        assert [len(rows) for rows in found["spread_rows"]] == [15] * 3
        return np.concatenate([found["numbers"]["spread_scale"], *found["spread_rows"]])

    first = solved(1, False)
    np.testing.assert_array_equal(solved(1, True), first)
    assert (solved(2, False) != first).any()


def test_a_shared_kernel_of_targets_without_labels_in_its_sample(rng, monkeypatch):
    """They do not count: LAPACK prints a line on stderr for each empty matrix."""
    _, raw = features(60, rng, ["vectors"])
    y = np.tile(labels(raw, rng), (1, 3))
    y[2:, 1:] = np.nan
    fit, counts = marginal_likelihood.fit, []

    def count(blocks, compared, given):
        counts.extend(len(rows) for rows, *_ in given)
        return fit(blocks, compared, given)

    monkeypatch.setattr(marginal_likelihood, "fit", count)
    for seed in range(6):
        kernel = processes_of(y, raw, seed)._fitted_kernel([0, 1, 2], 20)
        assert np.isfinite([*kernel.weights, *kernel.lengths, kernel.noise]).all()
    assert 6 <= len(counts) < 18 and min(counts) > 0


def naive_kernel(head, blocks, weights, lengths, both):
    """Between all molecules, straight from their features."""
    total = 0
    for name, weight, length in zip(blocks, weights, lengths, strict=True):
        if name == "fingerprint":
            part = np.array(
                [
                    [
                        np.minimum(a, b).sum() / np.maximum(a, b).sum()
                        for b in both[name]
                    ]
                    for a in both[name]
                ]
            )
        else:
            scaled = head.references[name].scale(both[name])
            r2 = ((scaled[:, None] - scaled) ** 2).mean(2)
            part = np.exp(-r2 / 2 / length**2)
            if name == "vectors":
                s = np.sqrt(5 * r2) / length
                part = (1 + s + s**2 / 3) * np.exp(-s)
        total = total + weight * part
    return total


def naive(head, raw, y, new):
    """Mean and variance of each target for other molecules: the first stage, then the
    second, which reads the values of the first for all targets."""
    count = len(y)
    both = {k: np.concatenate([raw[k], new[k]]).astype(np.float64) for k in raw}
    own = raw["vectors"].astype(np.float64)
    scaled = (both["vectors"] - own.mean(0)) / own.std(0)
    np.testing.assert_allclose(
        head.references["vectors"].scale(both["vectors"]), scaled
    )
    present = [np.flatnonzero(~np.isnan(column)) for column in y.T]
    standard = [
        (column[rows] - column[rows].mean()) / column[rows].std()
        for rows, column in zip(present, y.T, strict=True)
    ]
    both["scores"] = np.empty((len(both["vectors"]), len(present)))
    for target, (rows, values) in enumerate(zip(present, standard, strict=True)):
        kernel = head.first.weights[target], head.first.lengths[target]
        total = naive_kernel(head, head.read_blocks, *kernel, both)
        dual = head.first.dual[rows, target]
        noise = (
            values - total[np.ix_(rows, rows)] @ dual
        ) / dual  # solves (K + noise) dual
        np.testing.assert_allclose(noise, noise[0], rtol=1e-4)
        both["scores"][:, target] = total[:, rows] @ dual
        for left in rows:  # what the others say
            others = rows[rows != left]
            matrix = total[np.ix_(others, others)] + noise[0] * np.eye(len(others))
            solved = np.linalg.solve(matrix, values[rows != left])
            both["scores"][left, target] = total[left, others] @ solved
    np.testing.assert_allclose(head.raw["scores"], both["scores"][:count], atol=1e-4)
    both["scores"][:count] = head.raw["scores"]
    result = []
    for target, (rows, values) in enumerate(zip(present, standard, strict=True)):
        kernel = head.weights[target], head.lengths[target]
        total = naive_kernel(head, head.blocks, *kernel, both)
        noise = head.numbers["noise"][target] + marginal_likelihood.JITTER
        inverse = np.linalg.inv(total[np.ix_(rows, rows)] + noise * np.eye(len(rows)))
        similar = total[count:, rows]
        variance = np.diag(total)[count:] - np.diag(similar @ inverse @ similar.T)
        result.append((similar @ inverse @ values, variance))
    return result


@pytest.mark.parametrize("count", [3, gaussian_processes.MAX_OWN_KERNELS + 1])
@pytest.mark.parametrize("blocks", [ALL, ("vectors",), ("descriptors", "fingerprint")])
def test_naive_twin(rng, blocks, count):
    """Targets with missing labels and with kernels of their own, or one for all, and the
    scores that a first stage gives to all of them."""
    smiles, raw = features(40, rng, {*blocks, "vectors"})
    train = {name: array[:32] for name, array in raw.items()}
    new = {name: array[32:] for name, array in raw.items()}
    y = np.concatenate([labels(train, rng) for _ in range(count)], 1)
    y[:9, 1], y[20:, 2] = np.nan, np.nan
    head = fitted(train, smiles[:32], y, blocks=blocks)
    assert (np.ptp(head.weights, axis=0).max() == 0) == (count > 3)
    found = predictions_of(head, new["vectors"], smiles[32:])
    for target, (mean, variance) in enumerate(naive(head, train, y, new)):
        scale, offset = np.nanstd(y[:, target]), np.nanmean(y[:, target])
        np.testing.assert_allclose(
            found.values[:, target], offset + scale * mean, rtol=1e-6, atol=1e-6
        )
        std = np.sqrt(variance + head.numbers["noise"][target])
        factors = [
            np.interp(x, at[target], curve[target])
            for x, at, curve in zip(
                (mean, std), head.spread_knots, head.spread_factors, strict=True
            )
        ]
        assert np.ptp(factors) > 0.01
        std *= np.prod(factors, 0)
        std *= scale * head.numbers["spread_scale"][target]
        np.testing.assert_allclose(found.std[:, target], std, rtol=1e-6)


def test_endpoints_help_each_other(rng):
    """A target with few labels is better beside a similar target with many."""
    smiles, raw = features(160, rng, ["vectors"])
    many = labels(raw, rng)
    y = np.concatenate([many, many + 0.1 * rng.normal(size=many.shape)], 1)
    y[20:, 1] = np.nan
    train = {"vectors": raw["vectors"][:120]}
    errors = []
    for kept in ([0, 1], [1]):
        rows = ~np.isnan(y[:120, kept]).all(1)
        some = {"vectors": train["vectors"][rows]}
        head = fitted(some, smiles[: rows.sum()], y[:120][rows][:, kept])
        found = predictions_of(head, raw["vectors"][120:]).values[:, -1]
        errors.append(np.sqrt(np.mean((found - many[120:, 0]) ** 2)))
    assert errors[0] < 0.9 * errors[1]


def test_leave_one_out(rng):
    """The scale of the spread is that of models fitted without each molecule."""
    smiles, raw = features(20, rng, ["vectors"])
    y = labels(raw, rng)
    head = fitted(raw, smiles, y)
    standard = (y - y.mean()) / y.std()
    scores = []
    for left in range(20):
        kept = np.arange(20) != left
        squares = head.references["vectors"].compare(raw["vectors"])
        s = np.sqrt(5 * squares) / head.lengths[0, 0]
        matrix = head.weights[0, 0] * (1 + s + s**2 / 3) * np.exp(-s)
        matrix += (head.numbers["noise"][0] + marginal_likelihood.JITTER) * np.eye(20)
        solved = np.linalg.solve(matrix[np.ix_(kept, kept)], matrix[kept, left])
        variance = matrix[left, left] - solved @ matrix[kept, left]
        value, std = (solved @ standard[kept])[0], np.sqrt(variance)
        curves = zip(
            (value, std),
            head.spread_knots[:, 0],
            head.spread_factors[:, 0],
            strict=True,
        )
        calibrated = std * np.prod([np.interp(*curve) for curve in curves])
        scores.append((standard[left] - value) / calibrated)
    expected = np.sqrt(np.mean(np.square(scores)))
    assert head.numbers["spread_scale"][0] == pytest.approx(expected, rel=1e-6)


def test_weights(rng):
    """A label of twice the weight has half the noise; one without weight is missing."""
    smiles, raw = features(40, rng, ["vectors"])
    y, weights = labels(raw, rng), rng.uniform(0.5, 2, (40, 1))
    weights[::9] = 0
    kept = weights[:, 0] > 0
    head = fitted(raw, smiles, y, weights=weights)
    ratio = weights[kept, 0].mean() / weights[kept, 0]
    mean = np.average(y[kept], weights=weights[kept])
    assert head.numbers["offset"][0] == pytest.approx(mean)
    s = np.sqrt(5 * head.references["vectors"].compare(raw["vectors"][kept]))[:, kept]
    s /= head.lengths[0, 0]
    matrix = head.weights[0, 0] * (1 + s + s**2 / 3) * np.exp(-s)
    noise = head.numbers["noise"][0] * ratio + marginal_likelihood.JITTER
    standard = (y[kept, 0] - mean) / head.numbers["scale"][0]
    expected = np.linalg.solve(matrix + np.diag(noise), standard)
    np.testing.assert_allclose(head.dual[kept, 0], expected, rtol=1e-6, atol=1e-8)
    assert not head.dual[~kept].any()
    # The spread is calibrated with spreads of new labels of weight 1.
    usual = []
    for left in range(len(matrix)):
        rest = np.arange(len(matrix)) != left
        inside = (matrix + np.diag(noise))[np.ix_(rest, rest)]
        solved = np.linalg.solve(inside, matrix[rest, left])
        usual.append(matrix[left, left] - matrix[left, rest] @ solved)
    usual = np.sqrt(np.add(usual, head.numbers["noise"][0]))
    at = np.quantile(usual, np.linspace(0, 1, calibration.KNOTS))
    np.testing.assert_allclose(head.spread_knots[1, 0], at, rtol=1e-6)
