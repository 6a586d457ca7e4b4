"""Conformal selection: its promise on simulated draws, ties, bounds and classes."""

import numpy as np
import pytest

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.model_folder import ModelFolder
from graphormer_plugin.workbench.predictions.shortlist import (
    Shortlist,
    Wanted,
    selected,
    shortlist_of,
)

TARGETS = TargetSchema.of(
    ["y", "active", "c"], kind=["regression", "binary", "multiclass"]
)
TARGETS = TARGETS.with_classes([[], ["no", "yes"], ["a", "b", "c"]])
PROBABILITIES = [[0.2, 0.8, 0.4], [0.3, 0.1, 0.1], [0.5, 0.1, 0.5]]
CALIBRATION = {
    "y": ([[1.0, 2.0, 3.0, 4.0]], [1.0, 5.0, -np.inf, 4.0], [1.0, np.inf, 2.0, 4.0]),
    "active": ([[0.1, 0.4, 0.8]], [0, 0, 1], [0, 0, 1]),
    "c": (PROBABILITIES, [0, 1, 2], [0, 1, 2]),
}
MODELS = ModelFolder([], calibration=CALIBRATION, source="m.json")


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("digits", [1, 9])
def test_mean_false_share(share, digits, rng):
    """2,000 draws of calibration molecules and library, with and without ties; predictions that
    know nothing give nearly empty lists."""
    truth = rng.normal(size=(2000, 300))
    for noise in (0.4, 1e9):
        scores = np.round(truth + noise * rng.normal(size=truth.shape), digits)
        shares, listed = [], 0
        for y, values in zip(truth > 0.7, scores):
            failing = np.sort(values[:100][~y[:100]])
            part = Shortlist(0, 1, failing, 100, share, "")
            chosen = selected(part.p_values(values[100:]), share)
            shares.append((chosen & ~y[100:]).sum() / max(chosen.sum(), 1))
            listed += chosen.mean() / 2000
        mean, error = np.mean(shares), np.std(shares) / np.sqrt(2000)
        assert mean < share + 2 * error
        assert listed > 0.05 if noise < 1 else listed < 0.03


def test_p_values_count_ties_and_missing_predictions():
    """By hand; the step-up procedure lists molecules of a larger p-value, too."""
    found = Shortlist(0, 1, np.array([1.0, 2, 2]), 9, 0.1, "").p_values(
        np.array([2.0, 2.1, 0.0, np.nan])
    )
    assert found == pytest.approx([0.3, 0.1, 0.4, np.nan], nan_ok=True)
    assert selected(np.array([0.3, 0.2, 0.9, np.nan]), 0.45).tolist() == [1, 1, 0, 0]
    assert not selected(np.array([np.nan]), 0.5).any()


@pytest.mark.parametrize(
    "flag, words, failing",
    [
        ("--above", "y=3", [1, 3]),  # 5 or more passes, 2 or less does not
        ("--above", "y=4", [1, 3, 4]),
        ("--below", "y=3", [-4, -2]),
        ("--above", "active=yes", [0.1, 0.4]),
        ("--above", "active=no", [-0.8]),
        ("--above", "c=b", [0.1, 0.3]),
    ],
)
def test_molecules_that_may_fail(flag, words, failing):
    """A bound counts by its worse end; a class by its probability."""
    found = shortlist_of(Wanted(flag, words, 0.3), TARGETS, MODELS)
    assert found.failing.tolist() == failing
    values = np.array([[9, 0.9, 0.1, 0.8, 0.1], [-9, 0.1, 0.2, 0.05, 0.3]])
    high, low = found.p_values(values[:, found.output])
    assert (high < low) == (words != "active=no" and flag != "--below")


@pytest.mark.parametrize(
    "flag, words, share, expected",
    [
        ("--above", "z=3", 0.5, "the targets: y, active, c"),
        ("--above", "3", 0.5, "expected TARGET=VALUE"),
        ("--above", "y=high", 0.5, "a number after ="),
        ("--above", "y=nan", 0.5, "0 of 4 calibration molecules are (labels 1 to 5)"),
        ("--above", "active=maybe", 0.5, "expected --above active=no|yes"),
        ("--below", "active=yes", 0.5, "expected --above active=no|yes"),
        ("--above", "y=3", 0.1, "takes 9 or more calibration molecules, m.json has 4"),
    ],
)
def test_bad_thresholds(flag, words, share, expected):
    with pytest.raises(ValueError) as error:
        shortlist_of(Wanted(flag, words, share), TARGETS, MODELS)
    assert expected in str(error.value)
