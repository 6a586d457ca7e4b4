"""Hyper-parameters of a Gaussian process, by its marginal likelihood.

scikit-learn's `GaussianProcessRegressor` maximises the same function, but compares all
molecules anew in each step; here this is done once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, lapack
from scipy.optimize import minimize

from graphormer_plugin.estimators.kernels import KERNELS, Floats, kernel

JITTER = 1e-8  # added to the diagonal, relative to the labels' variance
# Units: variance of standardised labels, mean difference of standardised features.
WEIGHT = (1e-3, 1e3)
LENGTH = (0.05, 50.0)
NOISE = (1e-4, 10.0)
MAX_STEPS = 60
TOLERANCE = 1e-6  # relative change of the sum that ends the search


@dataclass(eq=False)  # arrays have no equality: an object is equal to itself alone
class Hyperparameters:
    """Hyper-parameters of a target, whose labels have mean 0 and variance 1.

    Attributes:
        weights: [B] weight of each block's kernel.
        lengths: [B] its length; 1 where the kernel has none.
    """

    weights: Floats
    lengths: Floats
    noise: float


def fit(
    blocks: Sequence[str],
    compared: Sequence[Floats],
    labels: Sequence[tuple[NDArray[np.int64], Floats, Floats, Floats]],
) -> Hyperparameters:
    """Maximise the sum of the log marginal likelihoods of some targets.

    Args:
        blocks: B keys of `KERNELS`.
        compared: argument of each kernel [n, n], see `Reference.compare`.
        labels: for each target its rows, their standardised labels, and the variance of
            the noise of each label: a part over ``noise``, and a part that is known.
    """
    count = len(blocks)
    # Blocks whose kernels have a length.
    long = [at for at, name in enumerate(blocks) if KERNELS[name] != "tanimoto"]
    lengths = [np.log(median_root(compared[block])) for block in long]
    start = np.array([np.log(1 / count)] * count + lengths + [np.log(0.1)])
    limits = [WEIGHT] * count + [LENGTH] * len(long) + [NOISE]
    bounds = np.log(limits)

    def _unpack(theta: Floats) -> Hyperparameters:
        lengths = np.ones(count)
        lengths[long] = np.exp(theta[count:-1])
        return Hyperparameters(np.exp(theta[:count]), lengths, float(np.exp(theta[-1])))

    def _loss(theta: Floats) -> tuple[float, Floats]:
        values = _unpack(theta)
        total = 0.0
        gradient = np.zeros_like(theta)
        pairs = [
            kernel(*block)
            for block in zip(blocks, compared, values.lengths, strict=True)
        ]
        parts = [w * value for w, (value, _) in zip(values.weights, pairs, strict=True)]
        slopes = {at: values.weights[at] * pairs[at][1] for at in long}
        matrix = np.sum(parts, 0)
        for rows, target, ratio, known in labels:
            whole = len(rows) == len(matrix)
            pick = (slice(None), slice(None)) if whole else np.ix_(rows, rows)
            noise = values.noise * ratio + known
            value, slope = log_likelihood(matrix[pick], target, noise)
            total -= value
            gradient[:count] -= [slope(part[pick]) for part in parts]
            gradient[count:-1] -= [slope(slopes[at][pick]) for at in long]
            gradient[-1] -= values.noise * slope(ratio)
        return total, gradient

    optimum = minimize(
        _loss,
        np.clip(start, *bounds.T),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": MAX_STEPS, "ftol": TOLERANCE},
    )
    return _unpack(optimum.x)


def log_likelihood(
    matrix: Floats, target: Floats, noise: Floats
) -> tuple[float, Callable[[Floats], float]]:
    """Log marginal likelihood of labels ``target`` [n] with noise of variance ``noise`` [n],
    by the kernel between the molecules, ``matrix`` [n, n].

    Returns:
        the value, and a function from the derivative of the kernel's matrix, or of its
        diagonal [n], by some parameter, to the derivative of the value.
    """
    size = len(target)
    noisy = matrix.copy()
    noisy[np.diag_indices(size)] += noise + JITTER
    factor = cho_factor(noisy, lower=True, overwrite_a=True, check_finite=False)
    alpha = cho_solve(factor, target, check_finite=False)
    value = -0.5 * target @ alpha - np.log(np.diag(factor[0])).sum()
    value -= 0.5 * size * np.log(2 * np.pi)
    inverse, _ = lapack.dpotri(factor[0], lower=True, overwrite_c=True)
    diagonal = np.diag(inverse).copy()
    # The other triangle has any numbers; symmetric matrices need only this triangle.
    inverse = np.tril(inverse, -1)

    def _slope(change: Floats) -> float:
        if change.ndim == 1:
            return 0.5 * float(alpha**2 @ change - diagonal @ change)
        trace = 2 * np.vdot(inverse, change) + diagonal @ np.diag(change)
        return 0.5 * float(alpha @ (change @ alpha) - trace)

    return float(value), _slope


def median_root(squares: Floats) -> float:
    """Median distance of pairs, from mean squared differences; 1 if all are equal."""
    distance = float(np.sqrt(np.median(squares)))
    return distance if distance > 1e-6 else 1.0
