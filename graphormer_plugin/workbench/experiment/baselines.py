"""What a model has to beat: the mean of the labels."""

import numpy as np


def mean_labels(labels: np.ndarray) -> np.ndarray:
    """Mean of the labels [n, C] of each output [C], of classes their shares; NaN without
    label."""
    counts = (~np.isnan(labels)).sum(0)
    unknown = np.full(len(counts), np.nan)
    return np.divide(np.nansum(labels, axis=0), counts, out=unknown, where=counts > 0)
