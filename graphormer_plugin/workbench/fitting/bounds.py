"""Labels that are bounds, such as > 100, in a Gaussian process."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import erfcx

from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.workbench.fitting.marginal_likelihood import JITTER

# Updates of all bounds (our choice).
SWEEPS = 100
DAMPING = 0.7
CONVERGED = 1e-4  # change of a mean, of labels with variance 1
# Below so many standard deviations a series is closer than floating point.
BOUND_SIGMAS = -50.0
LEAST_PRECISION = 1e-6  # a bound far from the prediction says nothing


def pseudo_labels(
    matrix: Floats, labels: Floats, noise: Floats, bounds: NDArray[np.int8]
) -> tuple[Floats, Floats]:
    """Labels with normal noise in place of bounds, by expectation propagation.

    The likelihood of a bound is the Tobit model's, the probability that the value with its
    noise lies beyond it (Groot & Lucas 2012, Gaussian process regression with censored data
    using expectation propagation). It has the moments of a probit likelihood. All bounds
    are updated at once, given the exact labels, with damping.

    Args:
        matrix: kernel between the molecules [n, n].
        labels: exact labels and bounds [n].
        noise: variance of each label.
        bounds: 1 where the value is above the label, -1 below, 0 for exact labels [n].

    Returns:
        labels and variances [n]; those of exact labels are unchanged.
    """
    labels = labels.copy()
    noise = noise.copy()
    at = np.flatnonzero(bounds)
    exact = np.flatnonzero(bounds == 0)
    if not len(at):
        return labels, noise
    prior = matrix[np.ix_(at, at)] + JITTER * np.eye(len(at))
    mean = np.zeros(len(at))
    if len(exact):
        own = matrix[np.ix_(exact, exact)] + np.diag(noise[exact] + JITTER)
        across = matrix[np.ix_(exact, at)]
        factor = cho_factor(own, lower=True, overwrite_a=True)
        mean = across.T @ cho_solve(factor, labels[exact])
        half = solve_triangular(factor[0], across, lower=True)
        prior -= half.T @ half
    sign = bounds[at].astype(float)
    limit = labels[at] - mean
    # The pseudo-labels' precision, and the product of precision and mean.
    precision = np.zeros(len(at))
    shift = np.zeros(len(at))
    before = np.full(len(at), np.inf)
    for _ in range(SWEEPS):
        root = np.sqrt(precision)[:, None]
        lower = cholesky(np.eye(len(at)) + root * prior * root.T, lower=True)
        half = solve_triangular(lower, root * prior, lower=True)
        variance = prior.diagonal() - (half**2).sum(0)
        center = prior @ shift - half.T @ (half @ shift)
        if np.abs(center - before).max() < CONVERGED:
            break
        before = center
        # Leave out the bound's own pseudo-label.
        left = variance / (1 - precision * variance)
        center = (center / variance - shift) * left
        width = np.sqrt(noise[at] + left)
        z = sign * (center - limit) / width
        slope = _slope(z)
        # The product below cancels for a large negative z.
        series = 1 - 1 / np.minimum(z, BOUND_SIGMAS) ** 2
        curvature = np.where(z < BOUND_SIGMAS, series, slope * (z + slope)) / width**2
        # A variance is at least that of a sharp bound; rounding may give less.
        shrunk = np.maximum(1 - left * curvature, noise[at] / width**2)
        precision += DAMPING * (curvature / shrunk - precision)
        shift += DAMPING * (
            (sign * slope / width + center * curvature) / shrunk - shift
        )
    precision = np.maximum(precision, LEAST_PRECISION)
    labels[at], noise[at] = mean + shift / precision, 1 / precision
    return labels, noise


def size_beyond(
    values: Floats, std: Floats, limits: Floats, bounds: NDArray[np.int8]
) -> Floats:
    """Root mean square error of a label that lies beyond a bound and is normal around its
    prediction. The calibration takes it in place of the unknown error.
    """
    z = bounds * (values - limits) / std
    return std * np.sqrt(np.maximum(1 - z * _slope(z), 0))


def _slope(z: Floats) -> Floats:
    """Derivative of the logarithm of the normal distribution function."""
    return np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
