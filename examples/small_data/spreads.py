"""Intervals that hold 90 % of the labels, as trials: from spreads, and learned ones.

A setting returns the lower and the upper end for the test molecules [n, 2] of a set with
one target, and `score` compares them. All are our choices.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor
from sklearn.preprocessing import StandardScaler

from graphormer_plugin.experiment.settings import FINETUNE
from graphormer_plugin.heads.calibration import spread_scale
from graphormer_plugin.heads.kernels import Floats

if TYPE_CHECKING:
    from trials import Case

ENDS = 0.05, 0.95  # quantiles at the ends of an interval
MOST_DEVIATIONS = 5.0  # of a feature from its mean, for a linear map
L1 = 0.003  # penalty of the linear quantiles


def interval_score(labels: Floats, ends: Floats) -> float:
    """Mean width of the intervals, plus 20 times how far a label is outside (Gneiting &
    Raftery 2007, Eq. 43); lower is better.

    Args:
        labels: [n].
        ends: lower and upper [n, 2], in the unit of the labels.
    """
    lower, upper = ends.T
    outside = np.maximum(lower - labels, 0) + np.maximum(labels - upper, 0)
    return float(np.mean(upper - lower + outside / ENDS[0]))


def score(case: "Case", part: str, ends: Floats) -> tuple[str, str]:
    """Metric and value, see `Trial.score`."""
    value = interval_score(case.labels(part)[:, 0], ends)
    return "interval_score", f"{value:.6f}"


def of_normal(values: Floats, std: Floats) -> Floats:
    """Intervals of normal distributions, both [n, 1]."""
    return values + std * norm.ppf(ENDS)


def of_head(case: "Case") -> Floats:
    """The spread of the head."""
    found = case.estimate(case.default_head)
    return of_normal(found.values, found.std)


def of_constant(case: "Case") -> Floats:
    """The root mean square of the spread of the head, for all molecules."""
    found = case.estimate(case.default_head)
    return of_normal(found.values, np.sqrt(np.mean(found.std**2, 0, keepdims=True)))


def of_ensemble(case: "Case") -> Floats:
    """Five trainings, their spread calibrated on valid, as graphormer-train does."""
    models = np.stack(case.trained("--model", FINETUNE, "--ensemble", 5)[FINETUNE])
    mean, std = models.mean(0), models.std(0, ddof=1)
    valid, test = case.rows("valid"), case.rows("test")
    scale = spread_scale(mean[valid], std[valid], case.labels("valid"))
    return of_normal(mean[test], scale(std[test]))


def linear(quantile: float, seed: int) -> QuantileRegressor:
    """A linear map with an absolute penalty; the seed has no effect."""
    return QuantileRegressor(quantile=quantile, alpha=L1)


def boosted(quantile: float, seed: int) -> HistGradientBoostingRegressor:
    """Boosted trees with scikit-learn's defaults."""
    return HistGradientBoostingRegressor(
        loss="quantile", quantile=quantile, random_state=seed
    )


def learned(
    model: Callable[[float, int], Any], *blocks: str
) -> Callable[["Case"], Floats]:
    """Both ends learned from train, from some blocks of features, and moved by one number
    such that they hold 90 % of valid (conformal, Romano et al. 2019)."""

    def run(case: "Case") -> Floats:
        x = np.nan_to_num(np.concatenate([case.raw[block] for block in blocks], 1))
        rows = case.rows("train")
        x = StandardScaler().fit(x[rows]).transform(x)
        x = np.clip(x, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        labels = case.labels("train")[:, 0]
        fitted = [model(end, case.split).fit(x[rows], labels) for end in ENDS]
        ends = np.sort([one.predict(x) for one in fitted], 0).T  # they may cross
        outside = ends[case.rows("valid")] - case.labels("valid")
        outside = np.maximum(outside[:, 0], -outside[:, 1])
        share = min((ENDS[1] - ENDS[0]) * (1 + 1 / len(outside)), 1)
        margin = np.quantile(outside, share, method="higher")
        return ends[case.rows("test")] + [-margin, margin]

    return run
