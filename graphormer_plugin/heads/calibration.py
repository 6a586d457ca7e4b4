"""Calibration of predicted spreads and probabilities on molecules with labels."""

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.special import ndtri
from sklearn.isotonic import IsotonicRegression

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.figure_style import FIGURE_STYLE
from graphormer_plugin.heads.kernels import Floats
from graphormer_plugin.heads.prediction import SpreadScale

LEAST_LABELS = 10  # of a target; with fewer its spread stays as it is
LEAST_ISOTONIC = 50  # labels of a target, for more than a scale
KNOTS = 16  # of the isotonic curve
FOLDS = 5  # that decide between a scale and a curve
LEAST_FACTOR = 0.25  # of a curve, in terms of the scale
# Limits of the logarithms of the squares of factor and floor, over typical squares.
LOGARITHMS = -20.0, 5.0
LEVELS = np.linspace(0, 1, 41)  # of intervals around a prediction
BINS = 10  # of probabilities, with as many molecules each
MOST_TARGETS = 6  # a figure has a panel for each of the first
SIDE = 3.6  # inches of a panel


def spread_scale(values: Floats, std: Floats, labels: Floats) -> SpreadScale:
    """Factor and floor of the standard deviations that make the labels most likely.

    Normal errors have the variance (factor * std)^2 + floor^2 (our choice). Without the
    floor, a few molecules on which two or three members agree by chance would decide
    the factor. The model must not be fitted to the molecules.

    Args:
        values: predictions [n, T] of a regression.
        std: their standard deviations.
        labels: labels, NaN where missing.

    Returns:
        Factor 1 and floor 0 for a target with fewer than `LEAST_LABELS` labels, without
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


def _likeliest(std: Floats, errors: Floats) -> tuple[float, float]:
    """Factor and floor of a target: the better of two local searches."""
    typical = np.sqrt(np.mean(std**2)), np.sqrt(np.mean(errors**2))
    squares = (std / typical[0]) ** 2, (errors / typical[1]) ** 2

    def _loss(logarithms: Floats) -> tuple[float, Floats]:
        factor, floor = np.exp(logarithms)
        variance = factor * squares[0] + floor
        slope = (1 - squares[1] / variance) / variance
        slopes = np.array([factor * (slope @ squares[0]), floor * slope.sum()])
        return float(np.sum(np.log(variance) + squares[1] / variance)), slopes

    searches = [
        minimize(_loss, start, jac=True, bounds=[LOGARITHMS] * 2)
        for start in ((0.0, -3.0), (-3.0, 0.0))
    ]
    best = min(searches, key=lambda search: search.fun)
    factor, floor = np.exp(best.x / 2)
    return factor * typical[1] / typical[0], floor * typical[1]


def isotonic_curve(std: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Factor of a standard deviation as a function of it.

    The squared errors are an isotonic function of the standard deviation: it never falls,
    so that the order of the molecules stays. A scale alone is taken where it makes the
    errors of left-out molecules more likely. All numbers are our choice.

    Args:
        std: standard deviations of normal errors [n], of molecules that the model was not
            fitted to.
        errors: label - prediction [n].

    Returns:
        Standard deviations [`KNOTS`], ascending, and the factor there over the root mean
        square of errors / std: 1 where that scale alone is the better choice.
    """
    at = np.quantile(std, np.linspace(0, 1, KNOTS))
    none = np.ones(KNOTS)
    if len(std) < LEAST_ISOTONIC or std.min() <= 0 or np.ptp(at) < 1e-6 * at[-1]:
        return at, none
    folds = np.arange(len(std)) % FOLDS
    gain = 0.0
    for fold in range(FOLDS):
        learn, left = folds != fold, folds == fold
        scale = _scale(std[learn], errors[learn])
        curve = _isotonic(std[learn], errors[learn], at)
        plain = scale * std[left]
        bent = plain * np.interp(std[left], at, curve)
        gain += _surprise(errors[left], plain) - _surprise(errors[left], bent)
    return at, _isotonic(std, errors, at) if gain > 0 else none


def _scale(std: Floats, errors: Floats) -> float:
    return max(float(np.sqrt(np.mean((errors / std) ** 2))), np.finfo(float).tiny)


def _isotonic(std: Floats, errors: Floats, at: Floats) -> Floats:
    """Isotonic over scaled standard deviation, at some standard deviations."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(std, errors**2)
    scaled = _scale(std, errors) * at
    return np.maximum(np.sqrt(fitted.predict(at)) / scaled, LEAST_FACTOR)


def _surprise(errors: Floats, std: Floats) -> float:
    """Negative log likelihood of normal errors, up to a constant."""
    return float(np.sum(np.log(std) + 0.5 * (errors / std) ** 2))


def coverage(errors: Floats, std: Floats) -> Floats:
    """Share of the labels within the central interval of each of `LEVELS`, by errors
    (label - prediction) and predicted standard deviations [n] of normal errors."""
    half = ndtri((1 + LEVELS) / 2)  # 0 to infinity
    scores = np.abs(errors) / np.maximum(std, np.finfo(np.float64).tiny)
    return (scores[:, None] <= half).mean(0)


def reliability(values: Floats, labels: Floats) -> tuple[Floats, Floats, Floats]:
    """Calibration of probabilities of class 1 [n] with labels 0 or 1 [n]: mean probability,
    share of class 1 and number of labels of each of at most `BINS` equally full bins.
    """
    order = np.argsort(values, kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    mean = np.array([values[part].mean() for part in bins])
    share = np.array([labels[part].mean() for part in bins])
    return mean, share, np.array([len(part) for part in bins], np.float64)


@rc_context(FIGURE_STYLE)
def calibration_figure(
    values: Floats,
    std: Floats | None,
    labels: Floats,
    targets: TargetSchema,
    scale: SpreadScale | None = None,
) -> Figure | None:
    """Draw how far spreads or probabilities can be trusted, a panel per target.

    Regression: the share of labels within an interval around the prediction, over the
    share that the spread promises. Classes: the share of class 1 over the predicted
    probability. On the diagonal they are right; below it a spread is too narrow.

    Args:
        values: predictions [n, T].
        std: their standard deviations, for a regression.
        labels: labels, NaN where missing.
        targets: the predicted targets.
        scale: see `spread_scale`; also draws the spread that it calibrates.

    Returns:
        None for a regression without spread, or without labels.
    """
    known = ~np.isnan(labels)
    binary = targets.kind == "binary"
    if (std is None and not binary) or not known.any():
        return None
    # Targets with labels come first, in their order.
    order = np.argsort(~known.any(0), kind="stable")[:MOST_TARGETS]
    calibrated = scale(std) if scale is not None and std is not None else None
    figure, axes = panels(len(order))
    for target, axis in zip(order, axes, strict=True):
        name, rows = targets.names[target], known[:, target]
        axis.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
        axis.set(title=name, xlim=(0, 1), ylim=(0, 1), aspect="equal")
        value, label = values[rows, target], labels[rows, target]
        if not rows.any():
            continue
        if binary:
            mean, share, counts = reliability(value, label)
            error = np.sqrt(share * (1 - share) / counts)
            axis.errorbar(mean, share, error, fmt="o-", markersize=4)
            axis.set(xlabel="predicted probability", ylabel="share of class 1")
        else:
            _draw_coverage(
                axis,
                label - value,
                std[rows, target],
                None if calibrated is None else calibrated[rows, target],
            )
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


def _draw_coverage(
    axis: Axes, errors: Floats, std: Floats, calibrated: Floats | None
) -> None:
    before = "as predicted" if calibrated is not None else None
    axis.plot(LEVELS, coverage(errors, std), label=before)
    if calibrated is not None:
        axis.plot(LEVELS, coverage(errors, calibrated), "--", label="calibrated")
        axis.legend(fontsize=8)
    axis.set(xlabel="share promised", ylabel="share of labels within")
