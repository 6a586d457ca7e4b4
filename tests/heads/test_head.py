"""Heads on frozen vectors, against scikit-learn and against their definition."""

import dataclasses

import numpy as np
import pytest
from rdkit import Chem
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.finetune.fit_head import fit_head
from graphormer_plugin.heads import (
    calibration,
    gaussian_processes,
    marginal_likelihood,
    solver,
)
from graphormer_plugin.heads import fixed_kernels as classes
from graphormer_plugin.heads.domain import Domain, nearest_distances, outside_domain
from graphormer_plugin.heads.fit import BLOCKS, fit_on_features, training_sample
from graphormer_plugin.heads.head import read_head
from graphormer_plugin.heads.kernels import Reference, kernel, raw_features
from graphormer_plugin.heads.marginal_likelihood import Hyperparameters
from graphormer_plugin.heads.prediction import Prediction, combined
from graphormer_plugin.inference.prediction_columns import prediction_columns

ALL = BLOCKS
WIDTH = 6


def molecules(count):
    ends = ("O", "N", "Cl", "C(=O)O", "c1ccccc1", "C#N", "S", "OC")
    return ["C" * (1 + i // len(ends)) + ends[i % len(ends)] for i in range(count)]


def features(count, rng, blocks=ALL):
    smiles = molecules(count)
    vectors = rng.normal(size=(count, WIDTH)).astype(np.float32)
    return smiles, {name: raw_features(name, vectors, smiles) for name in blocks}


def predictions_of(head, vectors, smiles=(), extra=None):
    """Prediction for molecules, whose features are computed."""
    return head.predict_features(
        {
            name: raw_features(name, vectors, smiles, extra)
            for name in {*head.read_blocks, "vectors"}
        }
    )


def labels(raw, rng):
    x = raw["vectors"].astype(float)
    return (np.sin(x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=len(x)))[:, None]


@pytest.mark.parametrize(
    "text",
    [
        "OCC(CO)N1C=Cc2c(NC(=O)CC34CC5CC(CC(C5)C3)C4)cccc2C1=O",
        r"C[C@H](N)c1ccc(cc1)/C=C\[C@@H]1CCCO1",
    ],
)
def test_spellings_of_a_molecule_have_equal_features(text):
    """RDKit's sums over the atoms differ in their last bits, which ranks would magnify."""
    mol = Chem.MolFromSmiles(text)
    others = [Chem.MolToSmiles(mol, rootedAtAtom=atom) for atom in range(12)]
    for block in ("fingerprint", "descriptors"):
        first, *more = raw_features(block, None, [text, *others])
        for one in more:
            np.testing.assert_array_equal(one, first)


def test_stereoisomers_have_different_fingerprints():
    """Whether they are parsed here or by the user."""
    texts = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"]
    texts += ["C/C=C/Cl", r"C/C=C\Cl"]
    counts = raw_features("fingerprint", None, texts)
    assert len(np.unique(counts, axis=0)) == 5
    mols = [Chem.MolFromSmiles(text) for text in texts]
    np.testing.assert_array_equal(raw_features("fingerprint", None, mols), counts)


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
    schema = TargetSchema([f"y{target}" for target in range(count)], "eV")
    head = fit_on_features(train, smiles[:32], y, schema, blocks=blocks)
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
            for x, at, curve in zip((mean, std), head.curve_at, head.curve, strict=True)
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
        schema = TargetSchema([f"y{at}" for at in kept])
        head = fit_on_features(
            {"vectors": train["vectors"][rows]},
            smiles[:120][: rows.sum()],
            y[:120][rows][:, kept],
            schema,
            blocks=["vectors"],
        )
        found = predictions_of(head, raw["vectors"][120:]).values[:, -1]
        errors.append(np.sqrt(np.mean((found - many[120:, 0]) ** 2)))
    assert errors[0] < 0.9 * errors[1]


def test_leave_one_out(rng):
    """The scale of the spread is that of models fitted without each molecule."""
    smiles, raw = features(20, rng, ["vectors"])
    y = labels(raw, rng)
    head = fit_on_features(raw, smiles, y, TargetSchema(["y"]), blocks=["vectors"])
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
        curves = zip((value, std), head.curve_at[:, 0], head.curve[:, 0], strict=True)
        calibrated = std * np.prod([np.interp(*curve) for curve in curves])
        scores.append((standard[left] - value) / calibrated)
    expected = np.sqrt(np.mean(np.square(scores)))
    assert head.numbers["spread_scale"][0] == pytest.approx(expected, rel=1e-6)


def test_variance_of_a_sample(rng):
    """By its formula; near the exact one, and equal to it with all as inducing points."""
    smiles, raw = features(64, rng, ["vectors"])
    y = labels(raw, rng)
    other = rng.normal(size=(10, WIDTH)).astype(np.float32)

    head = fit_on_features(raw, smiles, y, TargetSchema(["y"]), blocks=["vectors"])
    kernel = Hyperparameters(head.weights[0], head.lengths[0], head.numbers["noise"][0])
    solve = solver.Solver(
        head.references, raw, ["vectors"], [kernel], solver.SPREAD_NUMBERS // 40**2
    )
    solve(np.arange(64), kernel, np.ones(64), rng)
    sampled = {"spread_rows": solve.spread_rows, "spread_factor": solve.spread_factor}
    assert [len(rows) for rows in (*head.spread_rows, *solve.spread_rows)] == [64, 40]
    variance, approximate = (
        one._latent(one._compared({"vectors": other}))[1]
        for one in (head, dataclasses.replace(head, **sampled))
    )
    np.testing.assert_allclose(approximate, variance, atol=0.02 * head.weights.sum())
    root = rng.normal(size=(12, 12))
    matrix, noise = root @ root.T + np.eye(12), 0.5
    for at in (np.arange(12), np.array([1, 4, 7])):
        own, cross = matrix[np.ix_(at, at)], matrix[at]
        expected = np.linalg.inv(own) - np.linalg.inv(own + cross @ cross.T / noise)
        factor = solver.spread_of_sample(matrix, at, noise)
        np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-5)
        np.testing.assert_array_equal(factor, np.triu(factor))


def test_classes(rng):
    smiles, raw = features(60, rng, ["vectors"])
    y = (raw["vectors"][:, :1] > 0.3).astype(float)
    y[::7] = np.nan
    targets = TargetSchema(["active"], kind="binary")
    head = fit_on_features(raw, smiles, y, targets, blocks=["vectors"])
    other = rng.normal(size=(200, WIDTH)).astype(np.float32)
    found = predictions_of(head, other)
    assert (0 < found.values).all() and (found.values < 1).all()
    truth = other[:, 0] > 0.3
    assert found.values[truth].mean() > 0.7 > 0.3 > found.values[~truth].mean()
    # By sampling the latent value, which the probability is a logistic function of.
    mean, variance, _ = head._latent(head._compared({"vectors": other[:4]}))
    latent = mean + np.sqrt(variance) * rng.normal(size=(4, 100_000))
    numbers = head.numbers
    sampled = 1 / (1 + np.exp(-numbers["slope"] * latent - numbers["intercept"]))
    np.testing.assert_allclose(found.std[:4, 0], sampled.std(1), rtol=0.03)


def test_a_constant_probability_has_a_spread():
    """Labels that no feature explains: the standard error of their share."""
    vectors = np.zeros((100, WIDTH), np.float32)
    y = (np.arange(100) % 4 == 0).astype(float)[:, None]
    schema = TargetSchema(["y"], kind="binary")
    head = fit_on_features(
        {"vectors": vectors}, ["C"] * 100, y, schema, blocks=["vectors"]
    )
    found = head.predict_features({"vectors": vectors[:2]})
    np.testing.assert_allclose(found.values, 0.25)
    np.testing.assert_allclose(found.std, np.sqrt(0.25 * 0.75 / 100), rtol=0.03)


def processes_of(y, raw, seed=1, kind=gaussian_processes.GaussianProcesses):
    """Of targets with exact labels of equal weight, on vectors."""
    bounds, rng = np.zeros(y.shape, np.int8), np.random.default_rng(seed)
    return kind("regression", raw, ["vectors"], y, None, bounds, rng)


@pytest.mark.parametrize("first_stage", [False, True])
def test_equal_seeds_give_equal_solutions(rng, first_stage):
    """Wherever the kernels lie in memory; the seed draws the molecules of a variance."""
    _, raw = features(40, rng, ["vectors"])
    y = np.concatenate([labels(raw, rng) for _ in range(3)], 1)

    class Given(gaussian_processes.GaussianProcesses):
        """With equal kernels for each target, and 15 molecules for a variance."""

        def _fitted_kernels(self):
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
            process.kernels = process._fitted_kernels()
        found = process.solve()
        assert found["spread_of_target"].tolist() == [0, 1, 2]
        assert [len(rows) for rows in found["spread_rows"]] == [15] * 3
        return np.concatenate([found["numbers"]["spread_scale"], *found["spread_rows"]])

    first = solved(1, False)
    np.testing.assert_array_equal(solved(1, True), first)
    assert (solved(2, False) != first).any()


def test_the_seed_draws_molecules_where_there_are_many(rng, monkeypatch):
    """For the kernel and for the variance."""
    monkeypatch.setattr(solver, "SPREAD_ROWS", 100)
    monkeypatch.setattr(gaussian_processes, "HYPER_ROWS", 80)
    count, schema = solver.SPREAD_ROWS + 20, TargetSchema(["y"])
    _, raw = features(count, rng, ["vectors"])
    y, blocks = labels(raw, rng), ["vectors"]
    one, other = (
        fit_on_features(raw, ["C"] * count, y, schema, blocks=blocks, seed=seed)
        for seed in (1, 2)
    )
    assert len(one.spread_rows[0]) == solver.SPREAD_ROWS
    assert (one.spread_rows[0] != other.spread_rows[0]).any()
    assert (one.lengths != other.lengths).all()


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


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weights": [1.0, 2]}, r"weights have shape \[2\], .* \[3\] or \[3, 2\]"),
        ({"weights": np.ones((2, 3))}, r"weights have shape \[2, 3\], expected"),
        ({"weights": [1, -1, 1]}, "weights must be finite numbers >= 0"),
        ({"bounds": [[1, 0, 0], [0, 0, 0]]}, r"in the labels' shape \[3, 2\]"),
        ({"bounds": np.full((3, 2), 2)}, "bounds must be -1, 0 or 1"),
        ({"bounds": np.eye(3, 2), "classes": True}, "and 0 for classes"),
        ({"extra": {"pH": [7.0] * 6}}, r"extra has shape \[6, 1\], expected \[3, 1\]"),
    ],
)
def test_inputs_that_do_not_fit_the_molecules(options, message):
    labels = [[1.0, 2], [2, 3], [3, 5]]
    with pytest.raises(ValueError, match=message):
        fit_head("unread.pt", ["C", "CC", "CCC"], labels, **options)


def panel(raw, rng):
    """Three targets of two classes with missing labels; the last shares the first's."""
    first, second = labels(raw, rng) > 0.8, labels(raw, rng) < -0.5
    y = np.concatenate([first, second, first ^ (rng.random(first.shape) < 0.1)], 1)
    y = y.astype(float)
    y[:5, 0], y[20:, 1] = np.nan, np.nan
    return y


def test_panel_of_classes(rng):
    """Both stages, straight from their definition."""
    smiles, raw = features(40, rng)
    y = panel(raw, rng)
    train = {name: array[:32] for name, array in raw.items()}
    schema = TargetSchema(["a", "b", "c"], "", "binary")
    head = fit_on_features(train, smiles[:32], y[:32], schema, blocks=ALL)
    assert head.blocks == [*ALL, "scores"]

    def kernel_of(names, values, weights, lengths):
        total = 0
        for name, weight, length in zip(names, weights, lengths, strict=True):
            squares = head.references[name].compare(values[name])
            total = total + weight * kernel(name, squares, length)[0]
        return total  # [40, 32]

    def predicted(matrix, target, left_out):
        """For all molecules, the training ones without themselves if `left_out`."""
        known = np.flatnonzero(~np.isnan(y[:32, target]))
        column = y[known, target]
        share = np.where(column > 0.5, column.mean(), 1 - column.mean())
        noise = np.diag(
            classes.CLASS_NOISE / (0.5 / share) + marginal_likelihood.JITTER
        )
        standard = (column - column.mean()) / column.std()
        found = []
        for row in range(40):
            kept = known != row if left_out else np.full(len(known), True)
            rows = known[kept]
            inside = matrix[np.ix_(rows, rows)] + noise[np.ix_(kept, kept)]
            solved = np.linalg.solve(inside, standard[kept])
            found.append(matrix[row, rows] @ solved)
        return found

    thirds = np.full(3, 1 / 3)
    lengths = []
    for name in ALL:
        squares = head.references[name].compare(train[name])
        root = np.sqrt(np.median(squares))
        lengths.append(1.0 if name == "fingerprint" else classes.LENGTH * root)
    matrix = kernel_of(ALL, raw, thirds, lengths)
    scores = np.transpose([predicted(matrix, target, True) for target in range(3)])
    np.testing.assert_allclose(head.raw["scores"], scores[:32], rtol=1e-6, atol=1e-8)
    values = {**raw, "scores": scores}
    weights = [*(thirds / 2), classes.SCORES_WEIGHT]
    names, lengths = head.blocks, [*lengths, classes.SCORES_LENGTH]
    matrix = kernel_of(names, values, weights, lengths)
    latent = np.transpose([predicted(matrix, target, False) for target in range(3)])
    new = {name: array[32:] for name, array in raw.items()}
    found, *_ = head._latent(head._compared(new))
    np.testing.assert_allclose(found, latent[32:], rtol=1e-6, atol=1e-8)
    again = head.predict_features(new)
    np.testing.assert_array_equal(
        again.values, predictions_of(head, raw["vectors"][32:], smiles[32:]).values
    )


@pytest.mark.parametrize("share, fixed", [(0.1, True), (0.9, True), (0.5, False)])
def test_kernel_of_a_rare_class_is_not_fitted(rng, share, fixed):
    smiles, raw = features(60, rng, ["vectors"])
    y = labels(raw, rng)
    y = (y < np.quantile(y, share)).astype(float)
    schema = TargetSchema(["y"], "", "binary")
    head = fit_on_features(raw, smiles, y, schema, blocks=["vectors"])
    assert (head.numbers["noise"][0] == classes.CLASS_NOISE) == fixed
    assert head.first is None
    chances = predictions_of(head, raw["vectors"]).values
    assert chances[y > 0].mean() > chances[y < 1].mean() + 0.1


def test_one_class_beside_a_target_of_both(rng):
    smiles, raw = features(30, rng, ["vectors"])
    y = (labels(raw, rng) > 0).astype(float)
    ones = np.ones_like(y)

    def fit(*columns):
        names = [f"y{number}" for number in range(len(columns))]
        schema = TargetSchema(names, "", "binary")
        both = np.concatenate(columns, axis=1)
        return fit_on_features(raw, smiles, both, schema, blocks=["vectors"])

    found = fit(ones, y).predict_features(raw).values
    np.testing.assert_allclose(found[:, 0], 31 / 32)
    assert found[y[:, 0] > 0, 1].mean() > found[y[:, 0] < 1, 1].mean() + 0.2
    for columns in ((ones, ones), (np.full_like(y, np.nan), y)):
        with pytest.raises(ValueError, match="target y0 has fewer than 2 different"):
            fit(*columns)


def test_weights(rng):
    """A label of twice the weight has half the noise; one without weight is missing."""
    smiles, raw = features(40, rng, ["vectors"])
    y, weights = labels(raw, rng), rng.uniform(0.5, 2, (40, 1))
    weights[::9] = 0
    kept = weights[:, 0] > 0
    head = fit_on_features(
        raw, smiles, y, TargetSchema(["y"]), blocks=["vectors"], weights=weights
    )
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
    np.testing.assert_allclose(head.curve_at[1, 0], at, rtol=1e-6)


def test_molecules_of_weight_0_are_no_training_molecules():
    y = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, np.nan], [4.0, 5.0]])
    weights = np.array([[1.0, 1.0], [0.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    assert training_sample(y, 1).tolist() == [0, 1, 3]
    assert training_sample(y, 1, weights).tolist() == [0, 1]


def test_classes_weigh_the_same_whatever_weights_are_given(rng):
    """As with --class-weights balanced, or with weights of molecules."""
    y = (np.arange(60) < 6).astype(float)[:, None]
    for given in (np.ones(60), np.where(y[:, 0], 5, 1), rng.uniform(0.1, 2, 60)):
        (found,) = classes.balanced(y, [np.arange(60)], [given])
        assert found[:6].sum() == pytest.approx(found[6:].sum())
        assert found.sum() == pytest.approx(given.sum())
        np.testing.assert_allclose(found[:6] / found[0], given[:6] / given[0])


def test_weights_of_classes(rng):
    """The more a class weighs, the more probable it is."""
    smiles, raw = features(60, rng, ["vectors"])
    y = (raw["vectors"][:, :1] + rng.normal(size=(60, 1)) > 0.5).astype(float)
    schema = TargetSchema(["active"], kind="binary")
    means = [
        fit_on_features(
            raw, smiles, y, schema, blocks=["vectors"], weights=np.where(y, weight, 1)
        )
        .predict_features(raw)
        .values.mean()
        for weight in (1, 3, 9)
    ]
    assert means[0] < means[1] < means[2]


def test_several_classes(rng, tmp_path):
    """One against all others; a class that no molecule has is improbable."""
    smiles, raw = features(90, rng, ["vectors"])
    y = raw["vectors"][:, :3].argmax(1).astype(float)[:, None]
    y[::8] = np.nan
    schema = TargetSchema(["taste"], kind="multiclass").with_classes(
        [["bitter", "sour", "sweet", "umami"]]
    )
    head = fit_on_features(raw, smiles, y, schema, blocks=["vectors"])
    other = rng.normal(size=(200, WIDTH)).astype(np.float32)
    found = predictions_of(head, other)
    assert found.values.shape == found.std.shape == (200, 4)
    np.testing.assert_allclose(found.values.sum(1), 1)
    assert (found.values.argmax(1) == other[:, :3].argmax(1)).mean() > 0.7
    assert found.values[:, 3].max() < 0.1
    head.save(tmp_path / "head.npz")
    again = read_head(tmp_path / "head.npz")
    assert again.targets == schema
    np.testing.assert_array_equal(predictions_of(again, other).values, found.values)
    with pytest.raises(
        ValueError, match="label 1 of taste .* expected a class number 0..3"
    ):
        fit_on_features(raw, smiles, y + 2, schema, blocks=["vectors"])


def test_further_columns(rng, tmp_path):
    """They join the kernel, are saved with their names, and predictions need them."""
    smiles, raw = features(40, rng, ["vectors"])
    raw["extra"] = rng.normal(size=(40, 2))
    raw["extra"][3, 1] = np.nan
    y = labels(raw, rng) + 3 * raw["extra"][:, :1]
    blocks = ["vectors", "extra"]
    options = {"blocks": blocks, "extra_columns": ["pH", "T"]}
    head = fit_on_features(raw, smiles, y, TargetSchema(["y"]), **options)
    head.save(tmp_path / "head.npz")
    again = read_head(tmp_path / "head.npz")
    assert again.extra_columns == ["pH", "T"] and not again.molecule_blocks
    new = rng.normal(size=(5, WIDTH)).astype(np.float32), (), rng.normal(size=(5, 2))
    np.testing.assert_array_equal(
        predictions_of(head, *new)[0], predictions_of(again, *new)[0]
    )
    higher = predictions_of(again, new[0], (), new[2] + [1, 0]).values
    assert (higher > predictions_of(again, *new).values).all()


def test_in_domain_of_several_rows(rng):
    """Rows of a molecule, and what float32 rounds, change nothing."""
    smiles, raw = features(30, rng, ["vectors"])
    mols = [Chem.MolFromSmiles(one) for one in smiles]
    vectors, other = raw["vectors"], rng.normal(size=(50, WIDTH)).astype(np.float32)
    noise = 1e-6 * rng.normal(size=(60, WIDTH))
    once = Domain.of(vectors, mols)
    twice = Domain.of(np.tile(vectors, (2, 1)) + noise, mols * 2)
    np.testing.assert_allclose(twice.nearest[::2], once.nearest, rtol=1e-4)
    np.testing.assert_allclose(twice.score(other), once.score(other), atol=0.02)
    assert 0 < once.score(other).mean() < 1
    assert (twice.score(vectors) == 1).all() and (once.score(vectors) == 1).all()
    alone = Domain.of(vectors[:1], mols[:1])
    assert alone.score(vectors[:3]).tolist() == [1, 0, 0]


def test_in_domain(rng):
    smiles, raw = features(60, rng, ["vectors"])
    head = fit_on_features(
        raw, smiles, labels(raw, rng), TargetSchema(["y"]), blocks=["vectors"]
    )
    far = np.full((1, WIDTH), 30, np.float32)
    found = predictions_of(head, np.concatenate([raw["vectors"], far])).in_domain
    np.testing.assert_allclose(found, [1.0] * 60 + [0.0])
    scaled = head.references["vectors"].scaled
    apart = np.sqrt(((scaled[:, None] - scaled) ** 2).mean(2))
    nearest = (apart + 1e9 * np.eye(60)).min(1)
    np.testing.assert_allclose(head.domain.nearest, np.sort(nearest), rtol=1e-6)
    other = rng.normal(size=(9, WIDTH)).astype(np.float32)
    at = head.references["vectors"].scale(other)
    distances = np.sqrt(((at[:, None] - scaled) ** 2).mean(2)).min(1)
    expected = [np.mean(nearest >= distance) for distance in distances]
    np.testing.assert_allclose(head.domain.score(other), expected)
    assert head.domain.unseen(Chem.MolFromSmiles("CCBr")) == ([35], False)
    assert head.domain.unseen(Chem.MolFromSmiles("C" * 40)) == ([], True)


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_saved_and_read(rng, tmp_path, kind):
    smiles, raw = features(30, rng)
    y = np.concatenate([labels(raw, rng), labels(raw, rng)], 1)
    y[4:9, 1] = np.nan
    if kind == "binary":
        y = np.where(np.isnan(y), np.nan, y > 0)
    schema = TargetSchema(["a", "b"], "eV", kind)
    head = fit_on_features(raw, smiles, y, schema, "abc", blocks=ALL)
    head.save(tmp_path / "head.npz")
    again = read_head(tmp_path / "head.npz", "abc")
    assert again.targets == schema and str(again) == str(head)
    first = predictions_of(head, raw["vectors"], smiles)
    for one, other in zip(first, predictions_of(again, raw["vectors"], smiles)):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="belongs to another checkpoint"):
        read_head(tmp_path / "head.npz", "abd")


def test_in_domain_of_each_target(rng, tmp_path):
    """Where targets have labels of different molecules: as of a head of that target alone,
    before and after saving, and together with a model of one domain."""
    smiles, raw = features(12, rng, ["vectors"])
    y = np.concatenate([labels(raw, rng)] * 3, 1)
    y[:6, 1], y[[0, 3], 2] = np.nan, np.nan
    schema, near = TargetSchema(["a", "b", "c"]), raw["vectors"] + 0.1
    head = fit_on_features(raw, smiles, y, schema, blocks=["vectors"])
    found = predictions_of(head, np.concatenate([raw["vectors"], near])).in_domain
    assert found.shape == (24, 3) and (found[6:12] == 1).all()
    assert found[:6, 0].tolist() == [1] * 6 and (found[:6, 1] < 1).all()
    scaled = head.domain.reference.scaled
    of_near = head.domain.reference.scale(near)
    for target in range(3):
        rows = ~np.isnan(y[:, target])
        own = nearest_distances(scaled[rows], scaled[rows], others=True)
        distances = nearest_distances(of_near, scaled[rows])
        shares = (own[:, None] >= distances).mean(0)
        np.testing.assert_allclose(found[12:, target], shares)
    head.save(tmp_path / "head.npz")
    again = predictions_of(read_head(tmp_path / "head.npz"), near).in_domain
    assert np.array_equal(again, found[12:])
    one = Prediction(np.zeros((12, 3)), None, np.linspace(0, 1, 12))
    both = combined([one, one._replace(in_domain=found[12:])]).in_domain
    np.testing.assert_allclose(both, (one.in_domain[:, None] + found[12:]) / 2)
    columns = prediction_columns(schema, one.values, None, both)
    names = ["a_in_domain", "b_in_domain", "c_in_domain"]
    assert [column.name for column in columns] == ["a", "b", "c", *names]
    mols = [Chem.MolFromSmiles(text) for text in smiles]
    unlike = outside_domain([head.domain], mols, np.eye(12)[:, :3] * 0.9)
    assert unlike["outside"] == 9
    none = Domain.of(raw["vectors"], mols, np.eye(12, 2, dtype=bool) & [True, False])
    assert none.score(near)[:, 1].tolist() == [0] * 12
    full = fit_on_features(raw, smiles, y[:, :1].repeat(2, 1), TargetSchema(["a", "b"]),
        blocks=["vectors"])  # fmt: skip
    assert predictions_of(full, near, smiles).in_domain.shape == (12,)
