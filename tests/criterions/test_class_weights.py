"""Weights of classes and rows in the loss."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from graphormer_plugin.criterions import BinaryLogLoss, MulticlassCrossEntropy
from graphormer_plugin.criterions.class_weights import weight_table
from graphormer_plugin.data import TargetSchema

NAN = float("nan")


def task(kind="binary", names=("a",), num_classes=0, target=None):
    targets = TargetSchema(list(names), kind=kind, num_classes=num_classes)
    store = None
    if target is not None:
        rows = np.arange(len(target))
        labels = np.array(target)
        store = SimpleNamespace(labels=labels.__getitem__, splits={"train": rows[:-1]})
    return SimpleNamespace(targets=targets, store=store)


def test_balanced():
    target = [[0, 1], [0, NAN], [0, 1], [1, 1], [1, 0]]  # the last is not trained on
    found = weight_table("balanced", task(names="ab", target=target))
    np.testing.assert_allclose(found, [[4 / 6, 2], [0, 1]], rtol=1e-6)


@pytest.mark.parametrize("text", ["1", "1,2,3", "1,x", "1,-1", "1,inf", ""])
def test_wrong_numbers(text):
    with pytest.raises(ValueError, match="expected 2 numbers >= 0, or balanced"):
        weight_table(text, task())


def loss_of(criterion, output, target, **more):
    sample = {"target": torch.tensor(target), "net_input": {}, "nsamples": len(target)}
    sample |= {name: torch.tensor(values) for name, values in more.items()}
    loss, size, _ = criterion(lambda: torch.tensor(output), {**sample, "ntokens": 1})
    return float(loss), float(size)


def test_binary():
    output, target = [[2.0], [1.0], [-1.0]], [[1.0], [0.0], [NAN]]
    losses = [np.log1p(np.exp(-2)), np.log1p(np.exp(1))]
    loss, size = loss_of(BinaryLogLoss(task(), "1,5"), output, target)
    assert loss == pytest.approx(5 * losses[0] + losses[1]) and size == 6
    weighted = BinaryLogLoss(task(), "1,5")
    loss, size = loss_of(weighted, output, target, weight=[2.0, 0.5, 7.0])
    assert loss == pytest.approx(10 * losses[0] + 0.5 * losses[1]) and size == 10.5
    loss, size = loss_of(BinaryLogLoss(task()), output, target, weight=[0.0, 1.0, 1.0])
    assert loss == pytest.approx(losses[1]) and size == 1


def test_multiclass():
    criterion = MulticlassCrossEntropy(task("multiclass", num_classes=3), "1,2,3")
    output = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    loss, size = loss_of(criterion, output, [[2.0], [1.0]])
    assert loss == pytest.approx(5 * np.log(3)) and size == 5
