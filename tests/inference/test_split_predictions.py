"""Files of predictions: order, units, missing labels, OGB's own format."""

import csv
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.split_predictions import SUBMISSIONS, write_predictions

NAN = np.nan


def store(splits, dataset="mine", rows=None):
    return SimpleNamespace(
        manifest={"dataset": dataset},
        splits={name: np.array(part) for name, part in splits.items()},
        rows=lambda graphs: graphs if rows is None else np.array(rows)[graphs],
        label_counts=defaultdict(lambda: 2),
        sizes=defaultdict(lambda: 2),
    )


def read(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_values_are_in_the_order_of_the_split_and_in_the_unit(tmp_path):
    targets = TargetSchema.of(["a", "b"], "eV", mean=[1.0, 2.0], std=[2.0, 4.0])
    outputs = {
        1: (np.array([0.0, 1.0]), np.array([1.5, NAN])),
        0: (np.array([1.0, 0.0]), np.array([NAN, 7.0])),
        5: (np.array([9.0, 9.0]), np.array([9.0, 9.0])),  # another split
    }
    source = store({"test": [1, 0, 2]}, rows=[10, 20, 30])
    (path,) = write_predictions(tmp_path / "new", "test", source, targets, outputs)
    assert path.name == "predictions_test.csv"
    assert read(path) == [
        ["row", "a", "b", "a_target", "b_target"],
        ["20", "1", "6", "1.5", ""],
        ["10", "3", "2", "", "7"],
    ]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_nodes(tmp_path):
    targets = TargetSchema.of(["c"], kind="multiclass", level="node", num_classes=2)
    padded = np.array([[0.0, 0.0], [0.0, np.log(3)], [9.0, 9.0]])
    outputs = {3: (padded, np.array([[-1], [1], [-1]]))}
    (path,) = write_predictions(
        tmp_path, "test", store({"test": [3]}), targets, outputs
    )
    assert read(path) == [
        ["row", "node", "c", "c_target", "c_0", "c_1"],
        ["3", "0", "0", "", "0.5", "0.5"],
        ["3", "1", "1", "1", "0.25", "0.75"],
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "dataset, split",
    [
        ("pcqm4mv2", "test-dev"),
        pytest.param("pcqm4mv2", "test-challenge", marks=pytest.mark.slow),
        pytest.param("pcqm4m", "test", marks=pytest.mark.slow),
    ],
)
def test_submissions_equal_those_of_ogb(ogb, tmp_path, dataset, split):
    """The same file as OGB's evaluator writes, for as many graphs as it demands."""
    targets = TargetSchema.of(["homolumogap"], "eV", mean=[5.0], std=[1.0])
    _, count = SUBMISSIONS[dataset, split]
    source = store({split: np.arange(count)[::-1]}, dataset)
    values = np.linspace(-1, 1, count)
    missing = np.array([NAN])
    outputs = {graph: (values[graph : graph + 1], missing) for graph in range(count)}
    csv_file, file = write_predictions(tmp_path, split, source, targets, outputs)
    expected = tmp_path / "ogb"
    pair = {"y_pred": 5 + values[::-1]}
    if dataset == "pcqm4m":
        ogb.lsc.PCQM4MEvaluator().save_test_submission(pair, str(expected))
    else:
        ogb.lsc.PCQM4Mv2Evaluator().save_test_submission(pair, str(expected), split)
    (theirs,) = expected.iterdir()
    assert theirs.name == file.name
    with np.load(theirs) as one, np.load(file) as other:
        assert one.files == other.files
        assert one["y_pred"].dtype == other["y_pred"].dtype
        assert np.array_equal(one["y_pred"], other["y_pred"])


def test_a_submission_is_complete_or_not_there(tmp_path, caplog):
    targets = TargetSchema.of(["homolumogap"], "eV", mean=[5.0], std=[2.0])
    outputs = {0: (np.array([1.0]), np.array([NAN]))}
    source = store({"test-dev": [0, 1]}, "pcqm4mv2")
    files = write_predictions(tmp_path, "test-dev", source, targets, outputs)
    assert [file.suffix for file in files] == [".csv"]
    assert "no file for OGB: 1 of 2 graphs" in caplog.text
    source = store({"test-dev": [0]}, "pcqm4mv2")
    files = write_predictions(tmp_path, "test-dev", source, targets, outputs)
    assert [file.suffix for file in files] == [".csv", ".npz"]
    with np.load(files[1]) as file:  # the output in the unit
        assert file["y_pred"].tolist() == [7.0] and file["y_pred"].dtype == np.float32
    assert "OGB will not take y_pred_pcqm4m-v2_test-dev.npz: 1 graphs" in caplog.text
