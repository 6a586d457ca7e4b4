"""Lines about what limits the error of a model."""

import numpy as np
import pytest

from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.estimators.prediction import Prediction
from graphormer_plugin.workbench.experiment.limits import limit_lines
from graphormer_plugin.workbench.experiment.predictions import Run, predicted_labels
from graphormer_plugin.workbench.experiment.split_labels import SplitLabels
from support.labelled_molecules import molecules_of

SMILES = [f"{'C' * (8 + row // 2)}O" for row in range(60)]  # two rows of each


@pytest.fixture
def lines():
    """Function: lines about labels [60] that are predicted with an error of 0.5."""

    def lines(labels, extra):
        keys = [row // 2 for row in range(60)]
        table = molecules_of(labels[:, None], SMILES, ["y"], keys=keys, extra=extra)
        split = {
            "train": np.arange(30),
            "valid": np.arange(0),
            "test": np.arange(30, 60),
        }
        run = Run(SplitLabels(table, split), Prediction(table.labels + 0.5), [])
        prints = molecule_features("fingerprint", SMILES)
        return limit_lines(run.labels, predicted_labels(table, [run]), prints)

    return lines


def test_repeats(lines):
    """A copy is no repeat, nor is a measurement under another condition."""
    rows = np.arange(60)
    labels = rows // 2 + np.where(rows < 40, rows % 2 * 0.4, 0)
    (line,) = lines(labels, np.zeros((60, 0)))
    assert line.startswith("repeats of y differ by 0.283 ± 0.045 (20 molecules)")
    assert line.endswith("that of this one is 0.5")
    assert lines(labels, rows[:, None] * 1.0) == []


def test_activity_cliffs(lines):
    """Long chains are alike, whose labels jump once."""
    labels = np.where(np.arange(60) < 54, 0.0, 9.0) + np.arange(60) / 600
    labels[:30:2] += 1  # the deviation in train
    assert "on activity cliffs" in lines(labels, np.arange(60.0)[:, None])[-1]
    assert lines(np.arange(60) / 60, np.arange(60.0)[:, None]) == []
