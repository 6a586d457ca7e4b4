"""What a model has to beat: the mean of the labels, and a random forest."""

import contextlib
import os
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

# Share of the features that a regression tree considers at each node (our choice, for
# speed). Trees of classes consider scikit-learn's square root.
REGRESSION_FEATURES = 1 / 3
# scikit-learn splits no node whose variance is below 2e-16, as that of labels in mol/l may
# be. Labels with a smaller standard deviation than this are multiplied by a power of two.
SMALL_LABELS = 1e-3
# It computes variances from squares. Labels whose mean is more standard deviations than
# this away from 0 are centred.
LARGE_OFFSET = 1e3


def mean_labels(labels: np.ndarray, classes: int = 0) -> np.ndarray:
    """Mean of each target [T], for two classes the share of class 1; NaN without label. A
    multiclass target has the shares of its classes [classes]."""
    if classes:
        known = labels[~np.isnan(labels)].astype(int)
        return np.bincount(known, minlength=classes) / len(known)
    counts = (~np.isnan(labels)).sum(0)
    unknown = np.full(len(counts), np.nan)
    return np.divide(np.nansum(labels, axis=0), counts, out=unknown, where=counts > 0)


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Show no warnings, whatever the filters are.

    The threads of a forest change Python's list of filters, which they share, at the same
    time. Now and then a thread sees it empty, and scikit-learn warns of that for each
    tree.
    """
    with warnings.catch_warnings(record=True):
        yield


@no_warnings()
def forest_predictions(
    table: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    *,
    kind: str,
    trees: int,
    seed: int,
    classes: int = 0,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Predictions of a random forest per target.

    Args:
        table: Features [n, F], NaN where missing.
        test: Molecules to predict, t numbers of rows.

    Returns:
        Values or probabilities of class 1 [t, T]; probabilities [t, classes] of a
        multiclass target.
    """
    cores = len(os.sched_getaffinity(0))
    options = {"n_estimators": trees, "random_state": seed, "n_jobs": cores}
    predicted = np.zeros((len(test), classes or labels.shape[1]))
    for target, column in enumerate(labels.T):
        labelled = rows = train[~np.isnan(column[train])]
        if weights is not None:
            rows = rows[weights[rows, target] > 0]
        y, places = column[rows], slice(target, target + 1)
        if len(np.unique(y)) < 2:
            if classes:
                predicted[:, y.astype(int)] = 1
            elif len(labelled):  # every weight may be 0
                predicted[:, target] = y[0] if len(y) else column[labelled].mean()
            else:
                predicted[:, target] = np.nan
            continue
        of_rows = None if weights is None else weights[rows, target]
        if kind == "regression":
            forest = RandomForestRegressor(max_features=REGRESSION_FEATURES, **options)
            offset = y.mean() if abs(y.mean()) > LARGE_OFFSET * y.std() else 0.0
            power = -np.frexp(y.std())[1] if y.std() < SMALL_LABELS else 0
            forest.fit(table[rows], np.ldexp(y - offset, power), of_rows)
            values = np.ldexp(forest.predict(table[test]), -power)
            predicted[:, target] = values + offset
        else:
            forest = RandomForestClassifier(**options)
            forest.fit(table[rows], y.astype(int), of_rows)
            chances = forest.predict_proba(table[test])
            places = forest.classes_ if classes else places
            predicted[:, places] = chances if classes else chances[:, 1:]
    return predicted
