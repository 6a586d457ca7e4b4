"""What a model has to beat: the mean of the labels, and a random forest."""

import os
import warnings

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

# Share of the features that a regression tree considers at each node (our choice, for
# speed). Trees of classes consider scikit-learn's square root.
REGRESSION_FEATURES = 1 / 3
# scikit-learn computes variances from squares, and splits no node whose variance is below
# 2e-16, as that of labels in mol/l may be. Labels with a smaller standard deviation, or with
# a mean of more standard deviations, are standardised.
SMALL_LABELS, LARGE_OFFSET = 1e-3, 1e3


def mean_labels(labels: np.ndarray, classes: int = 0) -> np.ndarray:
    """Mean of each target [T], for two classes the share of class 1; NaN without label. A
    multiclass target has the shares of its classes [classes]."""
    if classes:
        classes_of_rows = labels[~np.isnan(labels)].astype(int)
        return np.bincount(classes_of_rows, minlength=classes) / len(classes_of_rows)
    counts = (~np.isnan(labels)).sum(0)
    unknown = np.full(len(counts), np.nan)
    return np.divide(np.nansum(labels, axis=0), counts, out=unknown, where=counts > 0)


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
        table: features [n, F], NaN where missing.
        test: molecules to predict, t numbers of rows.

    Returns:
        values or probabilities of class 1 [t, T]; probabilities [t, classes] of a
        multiclass target. A target without labels that count has NaN.
    """
    cores = len(os.sched_getaffinity(0))
    is_regression = kind == "regression"
    options = {"n_estimators": trees, "random_state": seed, "n_jobs": cores}
    predicted = np.zeros((len(test), classes or labels.shape[1]))
    for target, column in enumerate(labels.T):
        counts = ~np.isnan(column)
        if weights is not None:
            counts &= weights[:, target] > 0
        rows = train[counts[train]]
        y = column[rows]
        if len(np.unique(y)) < 2:
            if classes:
                predicted[:, y.astype(int)] = 1
            else:
                predicted[:, target] = y[0] if len(y) else np.nan
            continue
        mean, std = 0.0, 1.0
        if is_regression:
            forest = RandomForestRegressor(max_features=REGRESSION_FEATURES, **options)
            if y.std() < SMALL_LABELS or abs(y.mean()) > LARGE_OFFSET * y.std():
                mean = y.mean()
                std = y.std()
        else:
            forest = RandomForestClassifier(**options)
        # Its threads change Python's list of filters, which they share: now and then one
        # sees it empty, and scikit-learn warns of that for each tree.
        with warnings.catch_warnings(record=True):
            of_rows = None if weights is None else weights[rows, target]
            forest.fit(table[rows], (y - mean) / std, of_rows)
            values = (forest.predict if is_regression else forest.predict_proba)(
                table[test]
            )
        if is_regression:
            predicted[:, target] = values * std + mean
        elif classes:
            predicted[:, forest.classes_.astype(int)] = values
        else:
            predicted[:, target] = values[:, 1]
    return predicted
