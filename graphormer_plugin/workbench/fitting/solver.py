"""Linear systems of Gaussian processes, for one target after another."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, eigh, rq, solve_triangular
from scipy.sparse import csr_array

from graphormer_plugin.estimators.gp import QUERY_ROWS
from graphormer_plugin.estimators.kernels import Floats, Reference, weighted_sum
from graphormer_plugin.workbench.fitting.marginal_likelihood import (
    JITTER,
    Hyperparameters,
)
from graphormer_plugin.workbench.fitting.replicates import left_out_covariance

SPREAD_ROWS = 1500  # with more labels, a sample of that size gives the variance
HELD_OUT = 500  # molecules of the sample that are left out in turn, to calibrate with
SPREAD_NUMBERS = 16_000_000  # size of all targets' factors, 128 MB


def sample(
    rows: NDArray[np.int64], most: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """At most ``most`` of the rows, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(rng.choice(rows, most, replace=False))


def between(reference: Reference, raw: NDArray, rows: NDArray[np.int64]) -> Floats:
    """`Reference.compare` between some training molecules."""
    return reference.compare(raw[rows])[:, rows]


class Solution(NamedTuple):
    """Solution of the linear system of a target.

    Attributes:
        factor: Cholesky factor of its matrix, see `scipy.linalg.cho_factor`.
        spread: index of the factor of its variance.
        held_out: indices among its rows, whole molecules, and `left_out_covariance` of
            the labels there.
    """

    factor: tuple[Floats, bool]
    spread: int
    held_out: tuple[NDArray[np.int64], csr_array]


class Solver:
    """Solves for one target after another; consecutive targets with equal kernel and rows
    share their solution.

    Args:
        molecules: number of the molecule of each row [n].
    """

    def __init__(
        self,
        references: dict[str, Reference],
        raw: dict[str, NDArray],
        blocks: list[str],
        kernels: Sequence[Hyperparameters],
        solutions: int,
        molecules: NDArray[np.int64],
    ) -> None:
        self.references = references
        self.molecules = molecules
        self.raw = raw
        self.blocks = blocks
        self.most = min(SPREAD_ROWS, math.isqrt(SPREAD_NUMBERS // solutions))
        self.spread_rows: list[NDArray[np.int64]] = []
        self.spread_factor: list[Floats] = []
        self.compared: list[list[Floats]] | None = None
        if len({id(kernel) for kernel in kernels}) > 1:  # once, as it takes long
            self.compared = list(self._compare())
        self.matrix: tuple[Hyperparameters, Floats] | None = None
        self.solved: tuple[Hyperparameters, bytes, Solution] | None = None

    def __call__(
        self,
        rows: NDArray[np.int64],
        kernel: Hyperparameters,
        ratio: Floats,
        rng: np.random.Generator,
    ) -> Solution:
        """Solve for a target, by its molecules, its kernel, and the variance of the noise
        of each label over ``kernel.noise``."""
        key = rows.tobytes() + ratio.tobytes()
        if self.solved and self.solved[0] is kernel and self.solved[1] == key:
            return self.solved[2]
        self.solved = None  # a factor is large
        matrix = self.matrix_of(kernel)[np.ix_(rows, rows)]
        sampled = sample(np.arange(len(rows)), self.most, rng)
        exact = len(sampled) == len(rows)
        spread = (
            None if exact else spread_of_sample(matrix, sampled, kernel.noise * ratio)
        )
        matrix[np.diag_indices(len(rows))] += kernel.noise * ratio + JITTER
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        molecules = self.molecules[rows]
        left = sampled
        if not exact:
            some = molecules[sampled[:: -(-len(sampled) // HELD_OUT)]]
            left = np.flatnonzero(np.isin(molecules, some))
        columns = np.zeros((len(rows), len(left)))
        columns[left, np.arange(len(left))] = 1
        inverse = solve_triangular(
            factor[0], columns, lower=True, overwrite_b=True, check_finite=False
        )
        self.spread_rows.append(rows[sampled])
        # In C order, as in a head that is read: both predict the same to the last bit.
        factors = np.ascontiguousarray(inverse.T if exact else spread)
        self.spread_factor.append(factors)
        held_out = left, left_out_covariance(inverse, molecules[left])
        solution = Solution(factor, len(self.spread_rows) - 1, held_out)
        self.solved = (kernel, key, solution)
        return solution

    def _compare(self) -> Iterator[list[Floats]]:
        """`Reference.compare` of each block, for some rows at a time."""
        for start in range(0, len(self.raw["vectors"]), QUERY_ROWS):
            part = slice(start, start + QUERY_ROWS)
            yield [
                self.references[name].compare(self.raw[name][part])
                for name in self.blocks
            ]

    def matrix_of(self, kernel: Hyperparameters) -> Floats:
        """Kernel between all training molecules [n, n]."""
        if self.matrix is None or self.matrix[0] is not kernel:
            self.matrix = None
            count = len(self.raw["vectors"])
            start = 0
            matrix = np.empty((count, count))
            for compared in self.compared or self._compare():
                part = weighted_sum(
                    self.blocks, compared, kernel.weights, kernel.lengths
                )
                matrix[start : start + len(part)] = part
                start += len(part)
            self.matrix = (kernel, matrix)
        return self.matrix[1]


def spread_of_sample(
    matrix: Floats, points: NDArray[np.int64], noise: float | Floats
) -> Floats:
    """W [m, m] of `GPEstimator`, with a sample of molecules as inducing points.

    The variance is k(x, x) - k(x, Z) A k(Z, x) with A = inverse(K) - inverse(K + Kzn Knz
    / noise), K between the inducing points Z, and W W^T = A. It is the variance of the
    Gaussian process itself where Z are all training molecules.

    Args:
        points: inducing points [m].
        noise: variance of all labels, or of each [n].
    """
    among_points = matrix[np.ix_(points, points)] + 1e-6 * np.eye(len(points))
    lower = np.linalg.cholesky(among_points)
    projected = solve_triangular(lower, matrix[points], lower=True) / np.sqrt(noise)
    values, vectors = eigh(projected @ projected.T, overwrite_a=True)
    shrunk = vectors * np.sqrt(np.where(values > 1e-8, values / (1 + values), 0))
    factor = solve_triangular(lower, shrunk, lower=True, trans="T")
    return rq(factor, mode="r")  # the upper triangle with the same W W^T
