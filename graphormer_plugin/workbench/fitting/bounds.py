"""Labels that are bounds, such as > 100 or 3.1-4.2, in a Gaussian process."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from graphormer_plugin.data.tables.labels import label_ends
from graphormer_plugin.data.targets import target_statistics
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.workbench.fitting.marginal_likelihood import JITTER

# Most rounds of updates of all bounds, and the share of each that is taken (our choice).
SWEEPS = 100
DAMPING = 0.7
CONVERGED = 1e-4  # change of a mean, of labels with variance 1
NEGLIGIBLE = 40.0  # negative logarithm of a density that floating point does not notice
NODES = 64  # of the quadrature between the ends, which is exact to rounding
LEAST_PRECISION = 1e-6  # a bound far from the prediction says nothing


def pseudo_labels(
    matrix: Floats, labels: Floats, noise: Floats, bounds: Floats
) -> tuple[Floats, Floats]:
    """Labels with normal noise in place of bounds, by expectation propagation.

    The likelihood of a bound is the Tobit model's, the probability that the value with its
    noise lies beyond it, or between its ends (Groot & Lucas 2012, Gaussian process regression
    with censored data using expectation propagation). All bounds are updated at once, given
    the exact labels, with damping.

    Args:
        matrix: kernel between the molecules [n, n].
        labels: exact labels and bounds [n].
        noise: variance of each label.
        bounds: see `label_ends` [n].

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
    ends = np.stack(label_ends(labels[at] - mean, bounds[at]))
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
        shifted, inside = truncated_moments(*(ends - center) / width)
        # The curvature of the log likelihood is (1 - inside) / width^2; this does not cancel.
        shrunk = noise[at] + left * inside
        precision += DAMPING * ((1 - inside) / shrunk - precision)
        shift += DAMPING * ((shifted * width + center * (1 - inside)) / shrunk - shift)
    precision = np.maximum(precision, LEAST_PRECISION)
    labels[at] = mean + shift / precision
    noise[at] = 1 / precision
    return labels, noise


def size_beyond(values: Floats, std: Floats, labels: Floats, bounds: Floats) -> Floats:
    """Root mean square error of a label that lies where its bound says and is normal around
    its prediction. The calibration takes it in place of the unknown error.
    """
    ends = np.stack(label_ends(labels, bounds))
    mean, variance = truncated_moments(*(ends - values) / std)
    return std * np.sqrt(mean**2 + variance)


def truncated_moments(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a standard normal variable between two ends [n] each, low < high,
    which may be infinite.

    By Gauss-Legendre quadrature around the most probable value, which keeps the relative
    precision of the variance in both tails and of narrow intervals (our choice).
    """
    peak = np.clip(0, low, high)
    # Where the density is that of the peak times exp(-NEGLIGIBLE).
    reach = 2 * NEGLIGIBLE / (np.abs(peak) + np.sqrt(peak**2 + 2 * NEGLIGIBLE))
    first, last = np.clip([low - peak, high - peak], -reach, reach)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    x = np.multiply.outer((last - first) / 2, nodes) + ((first + last) / 2)[:, None]
    weights = weights * np.exp(-x * (peak[:, None] + x / 2))
    weights /= weights.sum(1, keepdims=True)
    mean = (weights * x).sum(1)
    variance = (weights * (x - mean[:, None]) ** 2).sum(1)
    return peak + mean, np.minimum(variance, 1)  # it may round to more


def located(labels: Floats, bounds: Floats) -> NDArray[np.bool_]:
    """Which labels [n, T] nearly say what the value is: exact ones, and intervals of half widths
    up to the standard deviation of all their middles (our choice)."""
    middles = np.where(np.isfinite(bounds), labels, np.nan)
    _, deviation = target_statistics(middles, slice(None))
    return ~np.isnan(middles) & (bounds <= deviation)
