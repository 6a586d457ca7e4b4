"""What a model has to beat: the mean of the labels, and a random forest."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from graphormer_plugin.data.descriptors import morgan_counts, rdkit_descriptors

# Share of the features that a regression tree considers at each node (our choice, for
# speed). Trees of classes consider scikit-learn's square root.
REGRESSION_FEATURES = 1 / 3


def features(smiles: Sequence[str]) -> np.ndarray:
    """Morgan counts and RDKit's descriptors side by side, float32 [n, features]."""
    parts = [morgan_counts(smiles), rdkit_descriptors(smiles)]
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


def mean_labels(labels: np.ndarray) -> np.ndarray:
    """Mean of each target [T]: for classes the share of class 1."""
    return np.nanmean(labels, axis=0)


def forest_predictions(
    table: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    *,
    kind: str,
    trees: int,
    seed: int,
) -> np.ndarray:
    """Predictions of random forests, one per target, for all molecules.

    Args:
        table: Features [n, F], NaN where missing.
        labels: [n, T], NaN where missing.
        train: Molecules to fit to.
        kind: ``regression`` or ``binary``.
        trees: In each forest.
        seed: Of the forests.

    Returns:
        Values or probabilities of class 1 [n, T].
    """
    found = np.empty(labels.shape)
    for target, column in enumerate(labels.T):
        rows = train[~np.isnan(column[train])]
        known = np.unique(column[rows])
        if len(known) < 2:
            found[:, target] = known[0] if len(known) else np.nanmean(labels[train])
            continue
        options = {
            "n_estimators": trees,
            "random_state": seed,
            "n_jobs": len(os.sched_getaffinity(0)),
        }
        if kind == "binary":
            forest = RandomForestClassifier(**options)
            forest.fit(table[rows], column[rows].astype(int))
            found[:, target] = forest.predict_proba(table)[:, 1]
        else:
            forest = RandomForestRegressor(max_features=REGRESSION_FEATURES, **options)
            forest.fit(table[rows], column[rows])
            found[:, target] = forest.predict(table)
    return found
