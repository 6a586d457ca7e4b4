"""Model outputs as values in the targets' unit, or as probabilities."""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.targets import Kind, Target, TargetSchema
from graphormer_plugin.estimators.kernels import Floats

ROUNDING = 1e-9  # 50 * 0.9 is 45
IN_DOMAIN = "in_domain"  # column of `Prediction.in_domain`


class Prediction(NamedTuple):
    """Predictions of a model or of several models for q molecules.

    Attributes:
        values: [q, C], in the targets' unit, or probabilities.
        std: [q, C] standard deviations of the probability, or with a head of a measured
            label; None for a model without spread.
        in_domain: [q], or [q, T] where targets have labels of different molecules, see
            `Domain`; None where the training molecules are not known.
    """

    values: Floats
    std: Floats | None = None
    in_domain: Floats | None = None


class Estimate(NamedTuple):
    """A `Prediction` in the targets' unit.

    Attributes:
        low, high: [q, C] ends of an `Interval`; None without.
        members: [q, M * C] values of each of M members; None unless asked for.
    """

    values: Floats
    std: Floats | None = None
    in_domain: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None
    members: Floats | None = None


QUANTILE = 1.6448536269514722  # 90 % of a normal distribution lie within +- this
# Gauss-Hermite quadrature over a standard normal variable.
NODES, SHARES = np.polynomial.hermite_e.hermegauss(16)
SHARES /= SHARES.sum()


class Interval(NamedTuple):
    """Intervals of what models learn: prediction +- factor * standard deviation, or +- factor
    of a model without spread. Of classes, sets of those whose `class_scores` are within limits.

    Attributes:
        coverage: share of the labels within.
        factor: factor of each output [C]; 0 without an interval.
        limits: limit of each class, by the name of the target.
    """

    coverage: float
    factor: Floats
    limits: Mapping[str, Sequence[float]] = {}

    @classmethod
    def of_scales(cls, targets: TargetSchema, scales: Sequence[Scale]) -> "Interval":
        """The 90 % interval of a normal distribution, of targets on a scale: their spread
        is not the same on both sides."""
        return cls(
            0.9, QUANTILE * np.array([*map(bool, scales)])[targets.target_of_output]
        )


def class_scores(target: Target, values: Floats) -> Floats:
    """How badly each of K classes fits a molecule [n, K], by its probabilities [n, outputs].

    One of two classes has 1 - its probability. One of several has the score of adaptive
    prediction sets (Romano et al., arXiv:2006.02544): the probabilities of all likelier
    classes, and a part of its own. The paper draws this part at random. Here it is
    1 - the largest probability, so that a molecule has one set (our choice).
    """
    if target.kind.has_one_output:
        return np.concatenate([values, 1 - values], 1)
    order = np.argsort(-values, 1)
    ranked = np.take_along_axis(values, order, 1)
    scores = np.cumsum(ranked, 1) - ranked[:, :1] * ranked
    return np.take_along_axis(scores, np.argsort(order, 1), 1)


def in_unit(
    learned: Prediction,
    targets: TargetSchema,
    scales: Sequence[Scale],
    interval: Interval | None = None,
    mean: bool = False,
) -> Estimate:
    """Convert a prediction of ``targets`` on ``scales`` to their unit, and add the ends of an
    interval.

    What is learned is normal around the prediction. A value becomes the median of the
    label, or with ``mean`` its mean, and the spread its standard deviation.
    """
    values = learned.values.copy()
    std = None if learned.std is None else learned.std.copy()
    low = high = None
    if interval is not None:
        half = interval.factor * (1.0 if std is None else std)
        low = values - half
        high = values + half
    for scale, output in zip(scales, targets.first_outputs):
        if not scale:
            continue
        value = learned.values[:, output]
        values[:, output] = scale.inverse(value)
        for ends in (low, high):
            if ends is not None:
                ends[:, output] = scale.inverse(ends[:, output])
        if std is None:
            continue
        samples = scale.inverse(value[:, None] + std[:, output, None] * NODES)
        average = samples @ SHARES
        with np.errstate(invalid="ignore"):  # beyond float64
            std[:, output] = np.sqrt((samples - average[:, None]) ** 2 @ SHARES)
        if mean:
            values[:, output] = average
    return Estimate(values, std, learned.in_domain, low, high)


class SpreadScale(NamedTuple):
    """Calibration of a spread: sqrt((factor * std)^2 + floor^2).

    Attributes:
        factor: [C].
        floor: [C], in the unit of what models learn.
    """

    factor: Floats
    floor: Floats

    def __call__(self, std: Floats) -> Floats:
        """Calibrated standard deviations [q, C]."""
        return np.hypot(self.factor * std, self.floor)


def combined(members: Sequence[Prediction]) -> Prediction:
    """Mean of the members of an ensemble.

    The variance is the unbiased variance of the members' values plus the mean of their own
    variances. The score of the domain is the mean over the members that have a domain.
    """
    values = np.stack([member.values for member in members])
    variances = [
        np.zeros_like(values[0]) if m.std is None else m.std**2 for m in members
    ]
    scores = [member.in_domain for member in members if member.in_domain is not None]
    mean = values.mean(0)
    std = None
    if len(members) > 1 or members[0].std is not None:
        between = values.var(0, ddof=1) if len(members) > 1 else 0
        std = np.sqrt(between + np.mean(variances, 0))
    if scores and max(score.ndim for score in scores) > 1:
        scores = [per_target(score, mean) for score in scores]
    return Prediction(mean, std, np.mean(scores, 0) if scores else None)


def per_target(in_domain: NDArray | None, values: NDArray) -> NDArray:
    """`Prediction.in_domain` in the shape of the values [q, C]; NaN where it is not known."""
    if in_domain is None:
        return np.full(values.shape, np.nan)
    each = in_domain if in_domain.ndim > 1 else in_domain[:, None]
    return np.broadcast_to(each, values.shape)


def values_of(output: Tensor | ArrayLike, targets: TargetSchema) -> Floats:
    """Values of a model's output [..., C]: in the targets' unit for regression, else
    probabilities (per class for a multiclass target)."""
    functions = {
        Kind.REGRESSION: targets.restore,
        Kind.BINARY: torch.sigmoid,
        Kind.MULTICLASS: functools.partial(torch.softmax, dim=-1),
    }
    return functions[targets.kind](torch.as_tensor(output).double()).cpu().numpy()


def names_and_unit(targets: TargetSchema) -> str:
    """Names and unit of targets, for people.

    >>> names_and_unit(TargetSchema.of(["gap"], "eV"))
    'gap (eV)'
    """
    texts = [t.kind.predicted or t.label_unit for t in targets.targets]
    meaning = ", ".join(dict.fromkeys(filter(None, texts))) or "no unit"
    return f"{listed(targets.names)} ({meaning})"


def expit(x: Floats) -> Floats:
    """1 / (1 + exp(-x)) without overflow."""
    return torch.special.expit(torch.from_numpy(x)).numpy()
