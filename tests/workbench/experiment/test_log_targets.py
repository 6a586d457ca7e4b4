"""Targets that are learned as logarithms."""

import numpy as np
import pytest

from graphormer_plugin.estimators.prediction import (
    Prediction,
    antilog,
    ends_of_interval,
    from_log,
)
from graphormer_plugin.workbench.experiment.data_warnings import experiment_warnings
from graphormer_plugin.workbench.experiment.labelled_molecules import read_table
from graphormer_plugin.workbench.experiment.targets import (
    learned_targets,
    spans_decades,
    with_logarithms,
)
from graphormer_plugin.workbench.predictions.table_columns import unlogged_cell
from support.labelled_molecules import molecules_of, settings

NAMES = ["logD", "clearance", "auto"]
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(2, 1, 200)
LABELS = np.stack([NORMAL, 10**NORMAL, 10 ** RNG.normal(-6, 0.7, 200)], 1)


@pytest.mark.filterwarnings("error")  # such as that of a logarithm of 0
def test_labels_of_several_decades():
    assert [spans_decades(column) for column in LABELS.T] == [False, True, True]
    for none in (
        [np.nan, np.nan],
        [np.nan, 3],
        -LABELS[:, 1],
        np.append(LABELS[:, 1], 0),
        np.linspace(1, 1000, 50),  # as many decades, but even
        100 - LABELS[:, 1].clip(0, 99.9),
        10 ** (NORMAL / 5),
    ):
        assert not spans_decades(np.array(none))


@pytest.mark.parametrize(
    "asked, names, logs",
    [
        ((), NAMES, []),
        (("auto",), [*NAMES[:2], "x"], [1, 2]),
        (("auto",), NAMES, [2]),  # a name
        (("auto", "clearance"), NAMES, [1, 2]),
    ],
)
def test_asked_targets(asked, names, logs):
    table = molecules_of(LABELS, names=names)
    assert with_logarithms(table, settings("a.csv", log_targets=asked)).logs == logs


def test_back_in_the_unit():
    """The interval has 90 % of what is measured, and half of the rest on each side."""
    logs, std = np.array([[1.0, 2], [0, -3]]), np.array([[0.5, 3], [0.1, 0]])
    found = from_log(Prediction(logs, std, np.ones(2)), [0])
    assert found.values[:, 0].tolist() == [10, 1]
    assert np.array_equal(found.values[:, 1], logs[:, 1])
    assert np.array_equal(found.std[:, 1], std[:, 1])
    low, high = ends_of_interval(found.values[:, 0], found.std[:, 0], is_log=True)
    again = [ends_of_interval(*found[:2], 3.0, is_log=x) for x in (True, False)]
    ends = np.array(again[0])[:, :, 0]
    assert np.log10(ends) == pytest.approx(logs[:, 0] + [[-1.5, -0.3], [1.5, 0.3]])
    assert again[1][1][:, 1] == pytest.approx(logs[:, 1] + 3 * std[:, 1])
    assert ends_of_interval(np.array([10.0]), None, 2.0, True)[1].tolist() == [1000]
    measured = 10 ** (1 + 0.5 * np.random.default_rng(1).normal(size=20_000))
    assert (measured < low[0]).mean() == pytest.approx(0.05, abs=0.006)
    assert (measured > high[0]).mean() == pytest.approx(0.05, abs=0.006)
    assert found.std[0, 0] == pytest.approx((high - low)[0] / 2 / 1.644854)
    assert from_log(Prediction(logs), [1]).std is None
    assert antilog(np.array([400.0])) == np.inf
    assert logs[0].tolist() == [1, 2]


@pytest.mark.parametrize("text", ["0.1", "1234.56789", "3e-09", "7.7e+20", ""])
def test_a_measured_value_is_printed_as_it_was_read(text):
    assert unlogged_cell(np.log10(float(text or "nan"))) == text


def test_a_table_without_logarithms(write):
    lines = [[f"{'C' * (k + 1)}O", f"{y:.4g}", k] for k, y in enumerate(LABELS[:40, 1])]
    path = write(lines, ["smiles", "clearance", "log10 clearance"])
    asked = settings(path, target_columns=("clearance",))
    plain = learned_targets(read_table(asked), asked)
    assert plain.targets.names == ["clearance"] and plain.logs == []
    hint = "labels of clearance are positive and span more than two decades; --log-targ"
    assert experiment_warnings(plain, [], asked)[0].startswith(hint)
    named = settings(path, target_columns=("log10 clearance",))
    assert learned_targets(read_table(named), named).logs == []


def test_a_label_without_logarithm_is_named():
    """A single 0 among ten decades; but not many, nor labels of one decade."""
    labels = 10 ** np.linspace(-5, 5, 100)[:, None]
    auto = settings("a.csv", log_targets=("auto",))

    def warned():
        return with_logarithms(molecules_of(labels, names=["c"]), auto).warned

    assert [*warned()] == []
    labels[3] = 0
    (text,) = warned()
    assert "1 label of 0 or less, such as 0; correct them, or give --missing-" in text
    labels[3:40] = 0
    assert [*warned()] == []
