"""Metrics by the names of logs and reports, and metrics over a whole split.

Accuracies, ROC-AUC and average precision are fractions from 0 to 1. An undefined metric is
NaN, and a log line says why.
"""

import logging
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

# Part of the largest score of a ranking within which scores are equal (our choice). Rounding
# depends on the batch, and nodes that a symmetry exchanges would be ranked by it.
TIE = 1e-5

# Of ranks, see `LinkLogLoss`.
LINK_METRICS = tuple(
    name + candidates
    for candidates in ("", "_filtered", "_filtered_self")
    for name in ("mrr", "hits_1", "hits_3", "hits_10")
)
# A larger value is better; every other metric is an error or a loss.
RISING = frozenset(
    ("r2", "spearman", "roc_auc", "ap", "accuracy", "balanced_accuracy", "macro_f1")
    + ("mcc", "f1", "bedroc", "enrichment")
    + ("weighted_accuracy", "weighted_accuracy_batch", "ewt", "force_cosine")
    + LINK_METRICS
)


def metric_names(columns: Sequence[str]) -> list[str]:
    """Target names reduced to letters, digits and ``_``, which are parts of metric names in
    logs, JSON, TensorBoard and ``--best-checkpoint-metric``. If two targets would get the
    same name, all keep their own."""
    names = [re.sub(r"\W+", "_", column).strip("_") for column in columns]
    return names if all(names) and len({*names}) == len(names) else list(columns)


def roc_auc(scores: NDArray[np.floating], targets: NDArray[np.floating]) -> float:
    """Area under the ROC curve, the mean over targets that have both classes.

    The metric of ogbg-molhiv (Hu et al. 2020, arXiv:2005.00687) equals OGB's ``Evaluator``.
    It is NaN if no target has both classes or a score is not finite, where OGB raises an
    error.

    Args:
        scores: ``[n, C]``, larger for class 1, such as logits.
        targets: ``[n, C]``, 0 or 1, NaN where missing.
    """
    from sklearn.metrics import roc_auc_score

    return _mean_over_tasks("roc_auc", roc_auc_score, scores, targets)


def average_precision(
    scores: NDArray[np.floating], targets: NDArray[np.floating]
) -> float:
    """Average precision, the mean over targets that have both classes: the metric of
    ogbg-molpcba and of LRGB's Peptides-func, with the arguments of `roc_auc`."""
    from sklearn.metrics import average_precision_score

    return _mean_over_tasks("ap", average_precision_score, scores, targets)


def _mean_over_tasks(
    name: str,
    metric: Callable[[NDArray, NDArray], float],
    scores: NDArray[np.floating],
    targets: NDArray[np.floating],
) -> float:
    values = []
    for score, target in zip(scores.T, targets.T, strict=True):
        labelled = ~np.isnan(target)
        score = score[labelled]
        target = target[labelled]
        if len(np.unique(target)) < 2:
            continue
        if not np.isfinite(score).all():
            logger.warning("%s is undefined: an output is not finite", name)
            return math.nan
        values.append(float(metric(target, score)))
    tasks = targets.shape[1]
    if not values:
        what = "the target has" if tasks == 1 else f"each of the {tasks} targets has"
        logger.warning(
            "%s is undefined: %s labels of only one class, or none", name, what
        )
        return math.nan
    if len(values) < tasks:
        logger.info(
            "%s is the mean over %d of %d targets; the others have only one class",
            name,
            len(values),
            tasks,
        )
    return math.fsum(values) / len(values)


RANKING_METRICS = {"roc_auc": roc_auc, "ap": average_precision}
