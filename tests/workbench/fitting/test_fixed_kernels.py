"""Rare classes and several targets of classes: kernels that are not fitted, two stages."""

import numpy as np
import pytest

from graphormer_plugin.estimators.kernels import kernel
from graphormer_plugin.workbench.fitting import fixed_kernels as classes
from graphormer_plugin.workbench.fitting import marginal_likelihood
from support.heads import ALL, features, fitted, labels, predictions_of


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
    head = fitted(train, smiles[:32], y[:32], "binary")
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
    found, *_ = head._latent(next(head.pieces(new)))
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
    head = fitted(raw, smiles, y, "binary")
    assert (head.numbers["noise"][0] == classes.CLASS_NOISE) == fixed
    assert head.first is None
    chances = predictions_of(head, raw["vectors"]).values
    assert chances[y > 0].mean() > chances[y < 1].mean() + 0.1


def test_classes_weigh_the_same_whatever_weights_are_given(rng):
    """The weights are those of --class-weights balanced, or of molecules."""
    y = (np.arange(60) < 6).astype(float)[:, None]
    for given in (np.ones(60), np.where(y[:, 0], 5, 1), rng.uniform(0.1, 2, 60)):
        (found,) = classes.balanced(y, [np.arange(60)], [given], [0])
        assert found[:6].sum() == pytest.approx(found[6:].sum())
        assert found.sum() == pytest.approx(given.sum())
        np.testing.assert_allclose(found[:6] / found[0], given[:6] / given[0])
