"""The prediction of a Gaussian process as a sum over the atoms of a molecule."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.estimators.gp import SCORES, GPEstimator, kernels_of_outputs
from graphormer_plugin.estimators.kernels import (
    Floats,
    Reference,
    kernel,
    mean_squared_differences,
)

POINTS, POINT_WEIGHTS = np.polynomial.legendre.leggauss(32)
WIDENED = 0.25  # standard deviations beyond the ends of a secant, our choice


def atom_sums(
    head: GPEstimator,
    raw: Mapping[str, NDArray],
    parts: Mapping[str, Floats],
    output: int,
) -> Floats:
    """Parts of atoms [N] in the sum of `GPEstimator.addends`; the rest is not of an atom.

    A bit b of the fingerprint gets its share of sum_i alpha_i k(x, x_i), in the proportion
    of min(x_b, x_ib), without approximation. In other blocks an atom has what it adds to a
    feature, times the gradient's mean between the training mean and the molecule (Eq. 1 of
    Sundararajan et al. 2017, arXiv:1703.01365), on the straight line of scaled features.

    Args:
        raw: features of a single molecule by block.
        parts: [N, features] by block: of the fingerprint, shares in its bits; else what
            atoms add to a feature, 0 for one that is not a sum over atoms. A block without
            them is not of an atom.
    """

    def _of_kernel(
        blocks: Sequence[str], weights: Floats, lengths: Floats, dual: Floats
    ) -> Floats:
        """Parts in the outputs of one kernel [N, T], whose ``dual`` is [n, T]."""
        total = np.zeros((1, dual.shape[1]))
        for block, weight, length in zip(blocks, weights, lengths, strict=True):
            if block in parts:
                gains = _gains(head.references[block], raw[block][0], length, dual)
                total = total + weight * parts[block] @ gains
        return total

    first = head.first
    if first is not None:
        _, values = head.with_scores(next(head.pieces(raw)))
        scores = np.zeros((len(next(iter(parts.values()))), values.shape[1]))
        for *own, members in kernels_of_outputs(first.weights, first.lengths):
            dual = first.dual[:, members]
            scores[:, members] = _of_kernel(head.read_blocks, *own, dual)
        raw = {**raw, SCORES: values}
        parts = {**parts, SCORES: scores}
    is_number = head.targets.is_number_of_output[output]
    scale = head.numbers["scale" if is_number else "slope"][output]
    own = head.weights[output], head.lengths[output], head.dual[:, [output]]
    return scale * _of_kernel(head.blocks, *own)[:, 0]


def _gains(
    reference: Reference, features: NDArray, length: float, dual: Floats
) -> Floats:
    """What a kernel machine gains by a unit of each feature [F, T], or by a whole bit."""
    if reference.block == "fingerprint":
        bits = np.flatnonzero(features)
        shared = np.minimum(features[bits], reference.raw[:, bits]).astype(np.float64)
        union = features.sum(dtype=np.float64) + reference.total - shared.sum(1)
        gains = np.zeros((len(features), dual.shape[1]))
        gains[bits] = (shared / union[:, None]).T @ dual
        return gains
    known = np.nan_to_num(reference.raw.astype(np.float64))
    ends = np.stack([known.mean(0), features])
    # Ranks of close values may differ much: the slope of a feature is that of a wider secant.
    wide = np.sort(ends, 0) + WIDENED * known.std(0) * [[-1], [1]]
    start, end, low, high = reference.scale(np.concatenate([ends, wide]))
    points = start + (POINTS[:, None] + 1) / 2 * (end - start)
    squares = mean_squared_differences(points, reference.scaled)
    _, by_log_length = kernel(reference.block, squares, length)
    # k depends on squares / length^2 alone.
    slopes = np.divide(by_log_length, squares, out=0 * squares, where=squares > 0)
    slopes *= POINT_WEIGHTS[:, None] / 2 / len(start)
    gradient = reference.scaled.T @ (slopes.sum(0)[:, None] * dual)
    gradient -= points.T @ (slopes @ dual)
    rise = high - low
    run = wide[1] - wide[0]
    slope = np.divide(rise, run, out=0 * rise, where=run > 0)  # run may be NaN
    return slope[:, None] * gradient
