"""The next molecules to measure: greedy choices by the joint distribution of candidates."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphormer_plugin.estimators.gp import Joint
from graphormer_plugin.estimators.kernels import Floats

DRAWS = 2000  # joint samples, which all picks share
# Share of the covariance's mean variance; without it that of copies has no factor.
JITTER = 1e-6


class Choice(NamedTuple):
    """Candidates in the order in which they are chosen.

    Attributes:
        rows: numbers of the candidates [k].
        reached: after each of them, the mean over the draws of the best value so far, or
            the share of the candidates' variance that is left [k].
    """

    rows: list[int]
    reached: Floats


def joint_draws(joints: Sequence[Joint], rng: np.random.Generator) -> Floats:
    """About `DRAWS` samples of all candidates [S, q], as many of each member."""
    parts = []
    for mean, covariance, _ in joints:
        jitter = JITTER * covariance.diagonal().mean() * np.eye(len(mean))
        root = np.linalg.cholesky(covariance + jitter)
        normal = rng.standard_normal((-(-DRAWS // len(joints)), len(mean)))
        parts.append(mean + normal @ root.T)
    return np.concatenate(parts)


def highest(draws: Floats, best: float, size: int, costs: Floats) -> Choice:
    """Choose greedily what raises the expected maximum of the batch and the best value so far
    most, by its cost (parallel expected improvement, Ginsbourger et al. 2010).

    Where no draw of any other candidate is above that, the maximum of the batch alone counts.

    Args:
        draws: [S, q].
        costs: [q], above 0.
    """
    rows: list[int] = []
    reached = []
    top = np.full(len(draws), best)
    of_batch = np.full(len(draws), draws.min())
    for _ in range(size):
        for level in (top, of_batch):
            gains = np.maximum(draws - level[:, None], 0).mean(0) / costs
            gains[rows] = -1
            if gains.max() > 0:
                break
        rows.append(row := int(gains.argmax()))
        top, of_batch = (np.maximum(x, draws[:, row]) for x in (top, of_batch))
        reached.append(top.mean())
    return Choice(rows, np.array(reached))


def most_informative(
    covariance: Floats, noise: Floats, size: int, costs: Floats
) -> Choice:
    """Choose greedily what lowers the sum of the variances of all candidates most when it is
    measured, by its cost (active learning, Cohn et al. 1996); arguments as in `Joint`.
    """
    rows: list[int] = []
    reached = []
    left = covariance.copy()
    for _ in range(size):
        gains = (left**2).sum(0) / (left.diagonal() + noise) / costs
        gains[rows] = -1
        rows.append(row := int(gains.argmax()))
        column = left[:, row].copy()
        left -= np.outer(column, column / (column[row] + noise[row]))
        reached.append(left.trace() / covariance.trace())
    return Choice(rows, np.array(reached))
