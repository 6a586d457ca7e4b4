"""Greedy choices of the next molecules to measure."""

import numpy as np
import pytest

from graphormer_plugin.estimators.gp import Joint
from graphormer_plugin.workbench.predictions.batch_choice import (
    highest,
    joint_draws,
    most_informative,
)


def test_highest_takes_no_copy(rng):
    """Candidate 1 is a copy of 0, 2 is a bit lower and independent; then 3 above nothing."""
    root = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0.001]])
    joint = Joint(np.array([1, 1, 0.9, -9]), root @ root.T, np.full(4, 0.1))
    draws = joint_draws([joint, joint], rng)
    assert draws.shape == (2000, 4)
    chosen = highest(draws, 0.5, 4, np.ones(4))
    assert {*chosen.rows[:2]} in ({0, 2}, {1, 2}) and chosen.rows[3] == 3
    tops = [np.maximum(draws[:, chosen.rows[:k]].max(1), 0.5).mean() for k in (1, 2)]
    np.testing.assert_allclose(chosen.reached[:2], tops)
    assert highest(draws, 0.5, 1, np.array([9, 9, 1, 1])).rows == [2]
    assert {*highest(draws, 99.0, 2, np.ones(4)).rows} in ({0, 2}, {1, 2})


def test_most_informative_by_dense_algebra(rng):
    """Each pick against the variance of all candidates given all picks, solved anew."""
    root = rng.normal(size=(30, 8))
    covariance = root @ root.T
    noise = rng.uniform(0.1, 1, 30)
    costs = rng.uniform(1, 3, 30)
    chosen = most_informative(covariance, noise, 5, costs)

    def left(rows):
        own = covariance[np.ix_(rows, rows)] + np.diag(noise[rows])
        known = covariance[rows].T @ np.linalg.solve(own, covariance[rows])
        return np.trace(covariance - known) / np.trace(covariance)

    before = 1.0
    for k, row in enumerate(chosen.rows):
        gains = [(before - left([*chosen.rows[:k], r])) / costs[r] for r in range(30)]
        assert np.argmax(gains) == row
        before = left(chosen.rows[: k + 1])
        assert chosen.reached[k] == pytest.approx(before, abs=1e-9)
