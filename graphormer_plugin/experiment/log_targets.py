"""Which targets are learned as logarithms."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import skew

from graphormer_plugin.data.errors import DatasetError, counted, listed
from graphormer_plugin.data.schema import LOG

AUTO_LOGS = "auto"
FEW = 0.1  # share of labels without a logarithm that may be mistakes; our choice
DECADES, SKEWED = 2, 1.0  # least of labels whose logarithm is advised; our choice


def log_columns(
    asked: Sequence[str],
    names: Sequence[str],
    labels: np.ndarray,
    others: Sequence[str] = (),
) -> list[int]:
    """Numbers of the targets of ``--log-targets``.

    Args:
        asked: Names, or ``auto`` for `spans_decades`.
        others: Names of the other columns that models read.
    """
    if [*asked] == [AUTO_LOGS] and AUTO_LOGS not in names:
        asked = [name for name, y in zip(names, labels.T) if spans_decades(y)]
    if unknown := [name for name in asked if name not in names]:
        raise DatasetError(
            f"--log-targets {unknown[0]}: no such target, expected {AUTO_LOGS} or some "
            f"of {listed(names, 12)}"
        )
    for name in asked:
        if count := int((labels[:, names.index(name)] <= 0).sum()):
            raise DatasetError(
                f"--log-targets {name}: {counted(count, 'label')} of 0 or less without a "
                "logarithm; correct them, or leave out the target"
            )
        if (log := LOG + name) in (*names, *others):
            raise DatasetError(
                f"--log-targets {name}: another column is called {log!r}, which is the "
                "name of its logarithm; rename that column, or leave it out"
            )
    return sorted({names.index(name) for name in asked})


def without_logarithm(names: Sequence[str], labels: np.ndarray) -> list[str]:
    """Lines about targets whose labels [n, T] span decades, except a few of 0 or less."""
    lines = []
    for name, y in zip(names, labels.T, strict=True):
        wrong = y[y <= 0]
        if 0 < len(wrong) <= FEW * len(y) and spans_decades(y[y > 0]):
            lines.append(
                f"{name} is not learned as a logarithm: {counted(len(wrong), 'label')} of 0 "
                f"or less, such as {wrong[0]:g}; correct them, or give "
                f"--missing-labels={wrong[0]:g}"
            )
    return lines


def spans_decades(labels: np.ndarray) -> bool:
    """Whether labels [n] are positive, skewed and of more than two decades, so that their
    logarithm is the better target."""
    y = labels[~np.isnan(labels)]
    if len(y) < 2 or y.min() <= 0 or y.max() < 10**DECADES * y.min():
        return False
    return bool(skew(y) > SKEWED and abs(skew(np.log(y))) < skew(y))
