"""Variances with a sample of the molecules."""

import dataclasses

import numpy as np

from graphormer_plugin.workbench.fitting import gaussian_processes, solver
from graphormer_plugin.workbench.fitting.marginal_likelihood import Hyperparameters
from support.heads import WIDTH, features, fitted, labels, molecules


def test_variance_of_a_sample(rng):
    """By its formula; near the exact one, and equal to it with all as inducing points."""
    smiles, raw = features(64, rng, ["vectors"])
    y = labels(raw, rng)
    other = rng.normal(size=(10, WIDTH)).astype(np.float32)

    head = fitted(raw, smiles, y)
    kernel = Hyperparameters(head.weights[0], head.lengths[0], head.numbers["noise"][0])
    solutions, every = solver.SPREAD_NUMBERS // 40**2, np.arange(64)
    solve = solver.Solver(head.references, raw, ["vectors"], [kernel], solutions, every)
    solve(every, kernel, np.ones(64), rng)
    sampled = {"spread_rows": solve.spread_rows, "spread_factor": solve.spread_factor}
    assert [len(rows) for rows in (*head.spread_rows, *solve.spread_rows)] == [64, 40]
    variance, approximate = (
        one._latent(next(one.pieces({"vectors": other})))[1]
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


def test_the_seed_draws_molecules_where_there_are_many(rng, monkeypatch):
    """For the kernel and for the variance."""
    monkeypatch.setattr(solver, "SPREAD_ROWS", 100)
    monkeypatch.setattr(gaussian_processes, "HYPER_ROWS", 80)
    count = solver.SPREAD_ROWS + 20
    _, raw = features(count, rng, ["vectors"])
    y = labels(raw, rng)
    one, other = (fitted(raw, molecules(count), y, seed=seed) for seed in (1, 2))
    assert len(one.spread_rows[0]) == solver.SPREAD_ROWS
    assert (one.spread_rows[0] != other.spread_rows[0]).any()
    assert (one.lengths != other.lengths).all()
