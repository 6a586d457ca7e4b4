"""The scales on which targets are learned."""

import numpy as np
import pytest

from graphormer_plugin.data.scales import Scale
from graphormer_plugin.workbench.experiment.labelled_molecules import SplitLabels
from graphormer_plugin.workbench.experiment.targets import on_scales
from support.labelled_molecules import molecules_of, settings

NAMES = ["logD", "clearance", "auto"]
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(2, 1, 60)
LABELS = np.stack([NORMAL, 10**NORMAL, 10 ** RNG.normal(-6, 0.7, 60)], 1)
SHARES = 1 / (1 + np.exp(-2 * NORMAL))


def scaled(labels, asked=("auto",), names=None, **more):
    """Scales of labels [n, T], of which two in three are training molecules, and the lines
    about them."""
    table = molecules_of(labels, names=names, **more)
    count = len(table)
    split = {
        "train": np.arange(0, 2 * count // 3),
        "test": np.arange(2 * count // 3, count),
    }
    found = on_scales(
        table, SplitLabels(table, split), settings("a.csv", log_targets=asked)
    )
    assert np.array_equal(found.in_unit.labels, labels, equal_nan=True)
    return [*map(str, found.scales)], found.in_unit.scaled


@pytest.mark.parametrize(
    "asked, names, expected",
    [
        (("auto",), [*NAMES[:2], "x"], ["", "log10 ", "log10 "]),
        (("auto",), NAMES, ["", "log10 ", "log10 "]),  # the word
        (("auto", "clearance"), NAMES, ["", "log10 ", "log10 "]),
        (("none",), NAMES, [""] * 3),
        (("auto",), ["y", "z", "log10 z"], ["", "", "log10 "]),  # a taken name
    ],
)
def test_asked_targets(asked, names, expected):
    assert scaled(LABELS, asked, names)[0] == expected


@pytest.mark.filterwarnings("error")  # such as that of a logarithm of 0
@pytest.mark.parametrize(
    "labels, scale",
    [
        (SHARES, Scale.LOGIT),
        (100 * SHARES, Scale.PERCENT),
        (10 * SHARES, Scale.IDENTITY),
        (10 ** (NORMAL / 5), Scale.IDENTITY),  # hardly skewed
        (-LABELS[:, 1], Scale.IDENTITY),
        (LABELS[:15, 1], Scale.IDENTITY),  # too few
        (np.where(np.arange(60) % 2, np.nan, LABELS[:, 1]), Scale.LOG),
    ],
)
def test_the_chosen_scale(labels, scale):
    (found,), lines = scaled(labels[:, None])
    assert found == scale and len(lines) == bool(scale)


def test_test_molecules_choose_nothing():
    (_,), (line,) = scaled(LABELS[:, 1:2])
    changed = np.where(np.arange(60)[:, None] < 40, LABELS[:, 1:2], 1.0)
    assert scaled(changed)[1] == [line] and "y0 is learned as log10 y0" in line


@pytest.mark.parametrize(
    "labels, wrong, words",
    [
        (
            LABELS[:, 1],
            0,
            "as log10 y0: 1 label has no log10, such as 0; correct",
        ),
        (100 * SHARES, 120, "1 label has no logit%, such as 120; correct them"),
    ],
)
def test_a_label_that_is_not_on_the_scale(labels, wrong, words):
    """A single one is named; of many, the scale is not theirs."""
    labels = labels[:, None].copy()
    labels[3] = wrong
    scales, (line,) = scaled(labels)
    assert scales == [""] and words in line
    labels[:30] = wrong
    assert "not learned" not in "".join(scaled(labels)[1])


def test_labels_that_may_be_bounds():
    labels = 10 ** np.clip(3 * NORMAL, 3, 8)[:, None]
    *_, line = scaled(labels)[1]
    assert "are 1000 and" in line and "give --censored" in line
    assert "--censored" in "".join(scaled(np.clip(NORMAL, 1, 3)[:, None])[1])
    assert "--censored" not in "".join(
        scaled(labels.clip(1e4, None) + NORMAL[:, None])[1]
    )
