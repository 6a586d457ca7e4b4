"""What a model has to beat: the mean of the labels."""

import numpy as np


def mean_labels(labels: np.ndarray, classes: int = 0) -> np.ndarray:
    """Mean of each target [T], for two classes the share of class 1; NaN without label. A
    multiclass target has the shares of its classes [classes]."""
    if classes:
        classes_of_rows = labels[~np.isnan(labels)].astype(int)
        return np.bincount(classes_of_rows, minlength=classes) / len(classes_of_rows)
    counts = (~np.isnan(labels)).sum(0)
    unknown = np.full(len(counts), np.nan)
    return np.divide(np.nansum(labels, axis=0), counts, out=unknown, where=counts > 0)
