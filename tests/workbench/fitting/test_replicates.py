"""Rows of one molecule: copies, replicates and stereoisomers."""

import numpy as np
import pytest
from scipy.stats import norm

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.workbench.fitting import marginal_likelihood
from graphormer_plugin.workbench.fitting.fit_gp import fit_on_features
from graphormer_plugin.workbench.fitting.gaussian_processes import GaussianProcesses
from graphormer_plugin.workbench.fitting.replicates import (
    left_out_covariance,
    merge_replicates,
)
from support.heads import WIDTH, features, fitted, labels, molecules, predictions_of

COUNT = 40
BINARY = TargetSchema.of(["a"], kind="binary")
MULTICLASS = TargetSchema.of(["a"], kind="multiclass", num_classes=3)
INF = np.inf
SCHEMAS = {"binary": BINARY, "rare": BINARY, "multiclass": MULTICLASS}


def of_kind(kind, raw, rng):
    """Labels, and bounds and weights of some."""
    y, extras = labels(raw, rng), {}
    if kind == "bounds":
        extras["bounds"] = np.where(rng.random(y.shape) < 0.2, INF, 0)
    if kind == "weights":
        extras["weights"] = rng.uniform(0.5, 2, y.shape)
    if kind == "binary":
        y = (y > 0.2).astype(float)
    if kind == "rare":
        y = (y > np.quantile(y, 0.9)).astype(float)
    if kind == "multiclass":
        y = np.digitize(y, [-0.7, 0.7]).astype(float)
    if kind == "several":
        y = np.concatenate([y, labels(raw, rng)], 1)
        y[:9, 0] = y[20:30, 1] = np.nan
    if kind == "extra":
        y = y + raw["extra"][:, :1]
    return y, extras


@pytest.mark.parametrize(
    "kind",
    ["exact", "bounds", "weights", "binary", "rare", "multiclass", "several", "extra"],
)
def test_a_copy_changes_nothing(rng, kind):
    """Each row once, half of them twice, and all three times in another spelling."""
    smiles, raw = features(COUNT, rng)
    if kind == "extra":
        raw["extra"] = rng.normal(size=(COUNT, 2))
    y, extras = of_kind(kind, raw, rng)
    new = rng.normal(size=(20, WIDTH)), molecules(20), rng.normal(size=(20, 2))
    schema = SCHEMAS.get(kind) or TargetSchema.of([*"ab"[: y.shape[1]]])
    every = np.arange(COUNT)
    found = []
    for copies in ([], every[::2], np.tile(every, 2)):
        rows = np.concatenate([every, copies]).astype(int)
        texts = [smiles[row] for row in rows]
        texts[COUNT:] = [f"[H]{one}" if one[0] == "C" else one for one in texts[COUNT:]]
        of_rows = {name: values[rows] for name, values in extras.items()}
        features_of = {name: values[rows] for name, values in raw.items()}
        of_rows["blocks"] = [*raw]
        description = MoleculeDescription.of(texts, parents=True)
        head = fit_on_features(features_of, description, y[rows], schema, **of_rows)
        assert len(head) == COUNT
        found.append(predictions_of(head, *new))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_allclose(same, one, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "values, signs, expected",
    [
        ([2.0, 2.0, 2.0], [0, 0, 0], (2, 1, 1, 0, 0)),
        ([1.0, 3.0, 3.0 + 1e-9], [0, 0, 0], (2, 2, 2, 1, 0)),
        ([1.0, np.nan, 2.0], [0, 0, 0], (1.5, 2, 2, 0.25, 0)),
        ([5.0, 8.0, 3.0], [INF, 2, 0], (3, 1, 1, 0, 0)),
        ([5.0, 8.0, 7.0], [INF, INF, INF], (8, 1, 1, 0, INF)),
        ([5.0, 8.0, 7.0], [-INF, -INF, -INF], (5, 1, 1, 0, -INF)),
        ([8.0, 5.0, 5.0], [INF, -INF, -INF], (6.5, 2, 2, 2.25, 0)),
        ([5.0, 8.0, 8.0], [INF, -INF, 2], (7, 1, 1, 0, 1)),
        ([5.0, 8.0, 8.0], [1, 1, 1], (6.5, 2, 2, 2.25, 0)),
        ([np.nan] * 3, [0, 0, 0], (np.nan, 1, 0, 0, 0)),
    ],
)
def test_rows_of_a_molecule_become_one(values, signs, expected):
    """A repeated label counts once; labels that differ have a mean and a variance."""
    raw = {"vectors": np.ones((4, 2), np.float32)}
    y, bounds = np.array([[*values, 0.0]]).T, np.array([[*signs, 0]]).T
    found = merge_replicates(raw, np.array([7, 7, 7, 2]), y, np.ones(y.shape), bounds)
    assert found.rows.tolist() == [0, 3] and found.molecules.tolist() == [0, 1]
    columns = found.labels, found.weights, found.counts, found.spread, found.bounds
    for column, value in zip(columns, expected, strict=True):
        assert column[0, 0] == pytest.approx(value, nan_ok=True)
        assert column.shape == (2, 1)


def test_rows_with_other_features_stay():
    raw = {"vectors": np.array([[0, 0], [0, 1e-6], [0, 1], [1, 1]], np.float32)}
    raw["extra"] = np.array([[np.nan], [np.nan], [np.nan], [np.nan]])
    y, bounds = np.zeros((4, 1)), np.zeros((4, 1))
    found = merge_replicates(raw, np.zeros(4, int), y, np.ones(y.shape), bounds)
    assert found.rows.tolist() == [0, 2, 3]
    assert found.molecules.tolist() == found.conditions.tolist() == [0, 0, 0]
    raw["extra"][1] = 7
    found = merge_replicates(raw, np.zeros(4, int), y, np.ones(y.shape), bounds)
    assert found.rows.tolist() == [0, 1, 2, 3]
    assert found.molecules.tolist() == [0, 0, 0, 0]
    assert found.conditions.tolist() == [0, 1, 0, 0]


def test_which_rows_are_of_one_molecule():
    """Homologues are not."""
    texts = ["C[C@H](O)F", "C[C@@H](O)F", "CC(O)F", "F/C=C/F", "F/C=C\\F"]
    texts += ["O=c1cc[nH]cc1", "Oc1ccncc1", "CN", "CN.Cl", "CCN"]
    texts += ["C[NH3+]", "CN.O", "[13CH3]N", "[2H]C([2H])([2H])N", "O=C1C=C[N-]C=C1"]
    description = MoleculeDescription.of(texts, parents=True)
    *_, found = np.unique(description.parent, return_inverse=True)
    same = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 3, 3, 3, 3, 2]
    assert np.array_equal(found[:, None] == found, np.equal.outer(same, same))


def test_errors_without_a_group(rng):
    """And their covariance, by systems without the group."""
    vectors = rng.normal(size=(12, 3))
    matrix, y = vectors @ vectors.T + np.eye(12), rng.normal(size=12)
    groups = np.array([3, 0, 0, 1, 2, 2, 2, 4, 1, 5, 6, 7])
    root = np.linalg.inv(np.linalg.cholesky(matrix))
    covariance = left_out_covariance(root, groups)
    errors = covariance @ np.linalg.solve(matrix, y)
    expected = np.zeros((12, 12))
    for group in range(8):
        out, rest = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        gain = matrix[np.ix_(out, rest)] @ np.linalg.inv(matrix[np.ix_(rest, rest)])
        np.testing.assert_allclose(errors[out], y[out] - gain @ y[rest])
        left = matrix[np.ix_(out, out)] - gain @ matrix[np.ix_(rest, out)]
        expected[np.ix_(out, out)] = left
    np.testing.assert_allclose(covariance.toarray(), expected, atol=1e-12)


def stereoisomers(count, rng):
    """Two of each molecule, whose vectors are near."""
    smiles, raw = features(count, rng, ["vectors"])
    near = raw["vectors"] + 0.01 * rng.normal(size=raw["vectors"].shape)
    return smiles * 2, {"vectors": np.concatenate([raw["vectors"], near], dtype="f4")}


def test_stereoisomers_with_one_value_are_no_second_opinion(rng):
    """Intervals of 90 % cover other molecules as with one isomer of each, and noise and
    length do not run to their limits."""
    smiles, raw = stereoisomers(550, rng)
    y = labels({"vectors": raw["vectors"][:550]}, rng) + 0.3 * rng.normal(size=(550, 1))
    fit, test = np.arange(150), np.arange(150, 550)
    for rows in (fit, np.concatenate([fit, 550 + fit])):
        train = {"vectors": raw["vectors"][rows]}
        head = fitted(train, [smiles[row] for row in rows], np.tile(y, (2, 1))[rows])
        found = head.predict_features({"vectors": raw["vectors"][test]})
        errors = np.abs(found.values - y[test])
        assert 0.85 < (errors < norm.ppf(0.95) * found.std).mean() < 0.95
        assert np.sqrt(np.mean(errors**2)) < 0.6
        assert head.numbers["noise"][0] > 10 * marginal_likelihood.NOISE[0]
        assert head.lengths[0, 0] > 2 * marginal_likelihood.LENGTH[0]


@pytest.mark.parametrize(
    "kind", ["exact", "weights", "binary", "rare", "multiclass", "several"]
)
def test_a_label_that_stereoisomers_repeat_counts_once(rng, kind):
    """Predictions and spreads are those of one of each, but for the isomers' features."""
    smiles, raw = features(60, rng, ["vectors"])
    near = raw["vectors"] + 0.003 * rng.normal(size=raw["vectors"].shape)
    y, extras = of_kind(kind, raw, rng)
    schema = SCHEMAS.get(kind) or TargetSchema.of([*"ab"[: y.shape[1]]])
    new = rng.normal(size=(50, WIDTH))
    found = []
    for isomers in (1, 2):
        vectors = np.concatenate([raw["vectors"], near][:isomers], dtype="f4")
        of_rows = {name: np.tile(x, (isomers, 1)) for name, x in extras.items()}
        description = MoleculeDescription.of(smiles * isomers, parents=True)
        rows = description, np.tile(y, (isomers, 1)), schema
        of_rows["blocks"] = ["vectors"]
        head = fit_on_features({"vectors": vectors}, *rows, **of_rows)
        found.append(predictions_of(head, new))
    one, both = found
    assert np.abs(both.values - one.values).max() < 0.04 * one.values.std()
    np.testing.assert_allclose(both.std, one.std, rtol=0.04)


def test_stereoisomers_are_left_out_of_each_others_scores(rng):
    """With a label of their own or without one."""
    smiles, raw = stereoisomers(20, rng)
    y = np.concatenate([labels(raw, rng), labels(raw, rng)], 1)
    y[25:, 0] = np.nan  # of isomers of molecules 5 to 19
    head = fitted(raw, smiles, y)
    molecule = np.tile(np.arange(20), 2)
    first = head.first
    squares = head.references["vectors"].compare(raw["vectors"])
    for target in range(2):
        s = np.sqrt(5 * squares) / first.lengths[target, 0]
        matrix = first.weights[target, 0] * (1 + s + s**2 / 3) * np.exp(-s)
        known = np.flatnonzero(~np.isnan(y[:, target]))
        own = matrix[np.ix_(known, known)]
        scale, offset = np.std(y[known, target]), np.mean(y[known, target])
        standard = (y[known, target] - offset) / scale
        dual = first.dual[known, target]
        noise = np.mean((standard - own @ dual) / dual)
        for row in range(40):
            kept = molecule[known] != molecule[row]
            inside = own[np.ix_(kept, kept)] + noise * np.eye(kept.sum())
            wanted = matrix[row, known[kept]] @ np.linalg.solve(inside, standard[kept])
            assert head.raw["scores"][row, target] == pytest.approx(wanted, abs=1e-5)


def test_replicates(rng):
    """The mean of k labels has 1 / k of the noise, and the variance by which they differ;
    the spread is calibrated for single labels."""
    smiles, raw = features(420, rng, ["vectors"])
    truth = labels(raw, rng)
    y = np.concatenate([truth + rng.normal(size=truth.shape) for _ in range(2)])
    fit = np.arange(120)
    rows = np.concatenate([fit, fit])
    train = {"vectors": raw["vectors"][rows]}
    both = y[np.concatenate([fit, 420 + fit])]
    head = fitted(train, [smiles[row] for row in rows], both)
    assert len(head) == 120
    pairs = both.reshape(2, 120)
    mean, scale = pairs.mean(), head.numbers["scale"][0]
    noise = head.numbers["noise"][0] / 2 + (np.diff(pairs, axis=0)[0] / 2 / scale) ** 2
    s = np.sqrt(5 * head.references["vectors"].compare(raw["vectors"][:120]))
    s /= head.lengths[0, 0]
    matrix = head.weights[0, 0] * (1 + s + s**2 / 3) * np.exp(-s)
    matrix[np.diag_indices(120)] += noise + marginal_likelihood.JITTER
    expected = np.linalg.solve(matrix, (pairs.mean(0) - mean) / scale)
    np.testing.assert_allclose(head.dual[:, 0], expected, rtol=1e-6, atol=1e-8)
    found = head.predict_features({"vectors": raw["vectors"][120:]})
    errors = np.abs(found.values - y[120:420])
    assert 0.85 < (errors < norm.ppf(0.95) * found.std).mean() < 0.95


def test_a_repeated_label_counts_once_for_the_hyper_parameters(rng, monkeypatch):
    """Except with other numbers beside it; an exact label goes before a bound."""
    fit, seen = marginal_likelihood.fit, []

    def record(blocks, compared, given):
        seen.append(given[0][0].tolist())
        return fit(blocks, compared, given)

    monkeypatch.setattr(marginal_likelihood, "fit", record)
    smiles, raw = stereoisomers(6, rng)
    y, bounds = np.tile(rng.normal(size=(6, 1)), (2, 1)), np.zeros((12, 1))
    y[11] += 1
    bounds[2] = INF
    molecules = MoleculeDescription.of(smiles, parents=True).parent

    def rows_of(raw):
        blocks = [*raw]
        measured = merge_replicates(raw, molecules, y, np.ones(y.shape), bounds)
        process = GaussianProcesses(TargetSchema.of(["y"]), raw, blocks, measured, rng)
        process._fitted_kernel([0], 12)
        return seen.pop()

    assert rows_of(raw) == [0, 1, 3, 4, 5, 8, 11]
    assert rows_of({**raw, "extra": np.arange(12.0)[:, None]}) == [*range(12)]
