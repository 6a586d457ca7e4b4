"""Calibration of predicted spreads and probabilities on molecules with labels."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtri
from scipy.stats import norm, spearmanr
from sklearn.linear_model import GammaRegressor
from sklearn.metrics import auc, roc_curve

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.estimators.prediction import QUANTILE, ROUNDING, SpreadScale
from graphormer_plugin.workbench.figure_style import figure_style

LEAST_LABELS = 10  # a target with fewer labels keeps its spread
KNOTS = 5  # points of each curve of a head's spread
PENALTY = 30.0  # weight of the squared coefficients of a curve, against the labels' sum
SHARE = 1.0  # scale of the prior of the variance that factor and floor add
# Limits of the logarithms of the squares of factor and floor, over typical squares.
LOGARITHMS = -20.0, 5.0
LEVELS = np.linspace(0, 1, 41)  # coverages of intervals around a prediction
BINS = 10  # groups of molecules of equal size, by probability or spread
SPREAD_SCORES = ("coverage90", "miscalibration", "ence", "nll", "rank_of_error")
MOST_TARGETS = 6  # a figure has a panel for each of the first
SIDE = 3.6  # inches of a panel


def spread_scale(values: Floats, std: Floats, labels: Floats) -> SpreadScale:
    """Factor and floor of the standard deviations that make the labels most likely.

    Normal errors have the variance (factor * std)^2 + floor^2 (our choice). Without the
    floor, a few molecules on which two or three members agree by chance would decide
    the factor. A beta distribution as prior of the share of either in the variance keeps
    both: a dozen labels would give every molecule the same spread. The model must not be
    fitted to the molecules.

    Returns:
        factor 1 and floor 0 for a target with fewer than `LEAST_LABELS` labels, without
        spread or without errors.
    """
    scale = SpreadScale(np.ones(labels.shape[1]), np.zeros(labels.shape[1]))
    for target, column in enumerate(labels.T):
        rows = ~np.isnan(column)
        errors = column[rows] - values[rows, target]
        spread = std[rows, target]
        if rows.sum() >= LEAST_LABELS and errors.any() and spread.any():
            scale.factor[target], scale.floor[target] = _likeliest(spread, errors)
    return scale


def conformal_factor(scores: Floats, coverage: float) -> float:
    """Factor of `Interval`, by split conformal prediction with the error over the predicted
    spread as score (Lei et al., arXiv:1604.04173).

    The (n + 1) * coverage-th smallest score, rounded up: a molecule that is exchangeable
    with the n molecules is within with a probability of ``coverage`` at least, and of 1 /
    (n + 1) more at most where no two scores are equal, whatever the model.

    Args:
        scores: |label - prediction| / standard deviation [n] of molecules that the model
            was not fitted to.
        coverage: above 0, below 1.

    Returns:
        inf where the molecules are too few, see `least_scores`.
    """
    rank = math.ceil((len(scores) + 1) * coverage - ROUNDING)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def best_cut_off(values: Floats, labels: Floats) -> float:
    """Probability above which class 1 is predicted: the one with the highest correlation of
    classes (MCC), for probabilities and labels [n], NaN where missing; 0.5 with fewer than half
    of `LEAST_LABELS` of a class."""
    known = ~np.isnan(labels)
    y = labels[known]
    if min(y.sum(), (1 - y).sum()) < LEAST_LABELS / 2:
        return 0.5
    false, true, cuts = roc_curve(y, values[known], drop_intermediate=False)
    share = (true * y.mean() + false * (1 - y.mean()))[
        1:-1
    ]  # of class 1; not all, nor none
    mcc = (true - false)[1:-1] / np.sqrt(share * (1 - share))
    at = 1 + int(mcc.argmax()) if len(mcc) else 0
    return float(cuts[at : at + 2].mean()) if at else 0.5


def least_scores(coverage: float) -> int:
    """Number of scores below which `conformal_factor` is inf."""
    return math.ceil(coverage / (1 - coverage) - ROUNDING)


def _likeliest(std: Floats, errors: Floats) -> tuple[float, float]:
    """Factor and floor of a target: the better of two local searches."""
    typical = np.sqrt(np.mean(std**2)), np.sqrt(np.mean(errors**2))
    squares = (std / typical[0]) ** 2, (errors / typical[1]) ** 2

    def _loss(logarithms: Floats) -> tuple[float, Floats]:
        factor, floor = np.exp(logarithms)
        variance = factor * squares[0] + floor
        slope = (1 - squares[1] / variance) / variance
        slopes = np.array([factor * (slope @ squares[0]), floor * slope.sum()])
        shares = np.array([factor, floor]) / (factor + floor)
        loss = np.sum(np.log(variance) + squares[1] / variance)
        loss -= 2 * SHARE * np.log(shares).sum()
        return float(loss), slopes - 2 * SHARE * (1 - 2 * shares)

    searches = [
        minimize(_loss, start, jac=True, bounds=[LOGARITHMS] * 2)
        for start in ((0.0, -3.0), (-3.0, 0.0))
    ]
    best = min(searches, key=lambda search: search.fun)
    factor, floor = np.exp(best.x / 2)
    return factor * typical[1] / typical[0], floor * typical[1]


def fitted_factors(
    values: Floats, std: Floats, errors: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Factors of a standard deviation: curves over the predicted value and over itself.

    The variance is a generalised linear model of the squared errors with a logarithm as
    link (gamma deviance, the likelihood of normal errors), on hat functions of both. The
    penalty draws both curves to 1, so that few labels leave a scale. An assay that ends at
    a limit has errors that depend on the predicted value more than on any distance to the
    training molecules (examples/small_data measures it). All numbers are our choice.

    Args:
        values: predictions [n] of molecules that the model was not fitted to.
        errors: label - prediction.
        weights: labels that each of them stands for [n], 1 or less.

    Returns:
        predicted values and standard deviations, ascending, [2, `KNOTS`], and the factors
        there, to be multiplied.
    """
    shares = np.linspace(0, 1, KNOTS)
    at = np.stack([np.quantile(values, shares), np.quantile(std, shares)])
    if not errors.any() or std.min() <= 0:
        return at, np.ones_like(at)
    hats = [
        np.interp(x, knots, one)
        for x, knots in zip((values, std), at, strict=True)
        for one in np.eye(KNOTS)
    ]
    squares = (errors / std) ** 2
    # The deviance has no value at 0.
    mean = np.average(squares, weights=weights)
    squares = np.maximum(squares / mean, np.finfo(np.float32).tiny)
    model = GammaRegressor(alpha=PENALTY / weights.sum(), max_iter=1000)
    model.fit(np.stack(hats, 1), squares, weights)
    return at, np.exp(model.coef_ / 2).reshape(at.shape)


def coverage(errors: Floats, std: Floats) -> Floats:
    """Share of the labels within the central interval of each of `LEVELS`, by errors
    (label - prediction) and predicted standard deviations [n] of normal errors."""
    half = ndtri((1 + LEVELS) / 2)  # 0 to infinity
    scores = np.abs(errors) / np.maximum(std, np.finfo(np.float64).tiny)
    return (scores[:, None] <= half).mean(0)


def spread_scores(errors: Floats, std: Floats) -> dict[str, float]:
    """Metrics of predicted standard deviations [n] of normal errors (label - prediction), NaN
    without label.

    Returns:
        ``coverage90``, the share of labels within the central interval of 90 %;
        ``miscalibration``, the area between the promised and the found share of labels
        (Kuleshov et al. 2018); ``ence``, the expected normalised calibration error over
        `BINS` equally full bins of the spread (Levi et al., arXiv:1905.11659); ``nll``, the
        mean negative log likelihood; ``rank_of_error``, Spearman's correlation of spread
        and absolute error. NaN for an undefined score; all are undefined without spread.
    """
    known = ~np.isnan(errors)
    errors = errors[known]
    std = std[known]
    if len(std) < 2 or not (std > 0).all():
        return dict.fromkeys(SPREAD_SCORES, np.nan)
    sizes = np.abs(errors)
    bins = _bins(std)
    found, promised = (
        np.array([np.sqrt(np.mean(x[part] ** 2)) for part in bins])
        for x in (errors, std)
    )
    varied = np.ptp(std) > 0 and np.ptp(sizes) > 0
    scores = (
        np.mean(sizes <= QUANTILE * std),
        auc(LEVELS, np.abs(coverage(errors, std) - LEVELS)),
        np.mean(np.abs(promised - found) / promised),
        -np.mean(norm.logpdf(errors, scale=std)),
        spearmanr(std, sizes).statistic if varied else np.nan,
    )
    return dict(zip(SPREAD_SCORES, map(float, scores), strict=True))


def reliability(values: Floats, labels: Floats) -> tuple[Floats, Floats, Floats]:
    """Calibration of probabilities of class 1 [n] with labels 0 or 1 [n]: mean probability,
    share of class 1 and number of labels of each of at most `BINS` equally full bins.
    """
    bins = _bins(values)
    mean = np.array([values[part].mean() for part in bins])
    share = np.array([labels[part].mean() for part in bins])
    return mean, share, np.array([len(part) for part in bins], np.float64)


def _bins(values: Floats) -> list[NDArray[np.int64]]:
    order = np.argsort(values, kind="stable")
    return [part for part in np.array_split(order, BINS) if len(part)]


@figure_style()
def calibration_figure(
    values: Floats,
    std: Floats | None,
    labels: Floats,
    targets: TargetSchema,
) -> Figure | None:
    """Draw how far spreads or probabilities can be trusted, a panel per target.

    Regression: the share of labels within an interval around the prediction, over the
    share that the spread promises. Classes: the share of class 1 over the predicted
    probability. On the diagonal they are right; below it a spread is too narrow.

    Returns:
        None for a regression without spread, or without labels.
    """
    known = ~np.isnan(labels)
    spread = np.zeros(labels.shape) if std is None else std
    shown = ~targets.is_number | (spread > 0).any(0)
    if not known[:, shown].any():
        return None
    # Targets with labels come first, in their order.
    order = np.flatnonzero(shown)
    order = order[np.argsort(~known[:, order].any(0), kind="stable")][:MOST_TARGETS]
    figure, axes = panels(len(order))
    for target, axis in zip(order, axes, strict=True):
        name = targets.names[target]
        rows = known[:, target]
        axis.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
        axis.set(title=name, xlim=(0, 1), ylim=(0, 1), aspect="equal")
        value = values[rows, target]
        label = labels[rows, target]
        if not rows.any():
            continue
        if not targets.is_number[target]:
            mean, share, counts = reliability(value, label)
            error = np.sqrt(share * (1 - share) / counts)
            axis.errorbar(mean, share, error, fmt="o-", markersize=4)
            axis.set(xlabel="predicted probability", ylabel="share of class 1")
        else:
            axis.plot(LEVELS, coverage(label - value, std[rows, target]))
            axis.set(xlabel="share promised", ylabel="share of labels within")
    return figure


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side, three in a row."""
    columns = min(count, 3)
    rows = -(-count // columns)
    figure = Figure(figsize=(SIDE * columns, SIDE * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, axes[:count]
