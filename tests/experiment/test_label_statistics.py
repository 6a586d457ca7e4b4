"""Numbers, means and spreads of the labels of train, valid and test."""

from types import SimpleNamespace

import numpy as np

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment.label_statistics import label_shift, label_table

SPLIT = {"train": np.arange(80), "valid": np.arange(80, 90), "test": np.arange(90, 120)}


def table(labels, **schema):
    labels = np.array(labels, float)
    return SimpleNamespace(exact_labels=labels, targets=TargetSchema(**schema))


def test_statistics_of_each_target():
    labels = np.array([[at % 2, np.nan if at < 90 else 2500] for at in range(120)])
    assert label_table(table(labels, names=["a", "b"]), SPLIT) == [
        ["labels", "train", "valid", "test"],
        ["a", "80: 0.5 ± 0.5", "10: 0.5 ± 0.5", "30: 0.5 ± 0.5"],
        ["b", "0", "0", "30: 2.5e+03 ± 0"],
    ]
    two = table(labels[:, :1], names=["a"], kind="binary")
    assert label_table(two, SPLIT)[1] == ["a", "80: 50 %", "10: 50 %", "30: 50 %"]
    kinds = {"names": ["c"], "kind": "multiclass", "num_classes": 2}
    _, *lines = label_table(table(labels[:, :1], **kinds), SPLIT)
    assert [line[:2] for line in lines] == [["c 0", "80: 50 %"], ["c 1", "80: 50 %"]]


def test_labels_of_test_that_lie_elsewhere():
    rng = np.random.default_rng(0)
    labels = rng.normal(size=(120, 2))
    assert label_shift(table(labels, names=["a", "b"]), SPLIT) == []
    labels[90:, 1] += 1.5
    (text,) = label_shift(table(labels, names=["a", "b"]), SPLIT)
    assert text.startswith("labels of b lie elsewhere in test than in train and valid")
    few = SPLIT | {"test": np.arange(117, 120)}  # as likely by chance
    labels[90:, 1] -= 1
    assert label_shift(table(labels, names=["a", "b"]), few) == []
    none = SPLIT | {"test": np.array([], int)}
    assert label_shift(table(labels, names=["a", "b"]), none) == []
