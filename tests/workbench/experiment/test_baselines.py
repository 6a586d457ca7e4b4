"""The mean of the labels."""

import warnings

import numpy as np
import pytest

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.experiment.baselines import mean_labels


def test_means_of_the_labels_that_are_there():
    labels = np.stack([np.arange(12.0), np.full(12, np.nan)], 1)
    with warnings.catch_warnings(action="error"):
        assert np.array_equal(mean_labels(labels), [5.5, np.nan], equal_nan=True)


def test_shares_of_classes():
    labels = np.array([[0.0, 0, 1, np.nan, 2]]).T
    targets = TargetSchema.of(["y"], kind="multiclass", num_classes=4)
    shares = mean_labels(targets.output_labels(labels))
    assert shares == pytest.approx([0.5, 0.25, 0.25, 0])
