"""Weights of classes and rows in the loss."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from graphormer_plugin.criterions.binary_logloss import BinaryLogLoss
from graphormer_plugin.criterions.class_weights import weight_table
from graphormer_plugin.criterions.multiclass_cross_entropy import MulticlassCrossEntropy
from graphormer_plugin.data import TargetSchema
from graphormer_plugin.tasks.graph_prediction import (
    GraphPredictionConfig,
    GraphPredictionTask,
)

NAN = float("nan")


def task(kind="binary", names=("a",), num_classes=0):
    targets = TargetSchema.of(list(names), kind=kind, num_classes=num_classes)
    return SimpleNamespace(targets=targets)


def table_task(tmp_path, lines, columns, name="a", **options):
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(lines) + "\n")
    given = {"dataset_name": str(path), "data_root": str(tmp_path / "data"), "seed": 1}
    given |= {"target_columns": columns, "prepare_workers": 1}
    return GraphPredictionTask(GraphPredictionConfig(**given, **options))


@pytest.fixture
def two_targets(tmp_path):
    lines = ["smiles,split,a,b", "C,train,0,1", "CC,train,0,", "CCC,train,0,1"]
    lines += ["CO,train,1,1", "CN,valid,1,0", "CCO,test,1,0"]
    return table_task(tmp_path, lines, "a,b", target_kind="binary")


def test_balanced(two_targets):
    found = weight_table("balanced", two_targets)
    np.testing.assert_allclose(found, [[4 / 6, 2], [0, 1]], rtol=1e-6)


def checkpoint_of(task, targets):
    """State of a task, as if its targets had been others."""
    return task.state_dict() | {"targets": targets.to_dict()}


def test_balanced_in_the_order_of_a_checkpoint(two_targets, tmp_path):
    """The weights are of the checkpoint's targets and classes, not of the store's."""
    two_targets.load_state_dict(
        checkpoint_of(two_targets, two_targets.targets.select([1]))
    )
    assert weight_table("balanced", two_targets).tolist() == [[0, 1]]
    criterion = BinaryLogLoss(two_targets, "balanced")
    loss, size = loss_of(criterion, [[1.0], [1.0]], [[1.0], [0.0]])
    assert loss == pytest.approx(np.log1p(np.exp(-1))) and size == 1

    rows = [("C", "low"), ("CC", "low"), ("CCC", "low"), ("CO", "high"), ("CN", "mid")]
    lines = ["smiles,split,y", *(f"{s},train,{word}" for s, word in rows)]
    lines += ["NCC,valid,low", "NCO,test,mid"]
    words = table_task(tmp_path, lines, "y", "b", target_kind="multiclass")
    before = dict(zip(words.targets.class_names[0], *weight_table("balanced", words)))
    order = ["low", "mid", "high"]
    assert words.targets.class_names != [order] and len({*before.values()}) > 1
    trained = table_task(tmp_path, lines, "y", "b", target_kind="multiclass")
    trained.load_state_dict(
        checkpoint_of(trained, trained.targets.with_classes([order]))
    )
    (weights,) = weight_table("balanced", trained)
    assert weights.tolist() == [before[word] for word in order]


def test_other_data_are_weighed_as_the_training(two_targets, tmp_path):
    weights = weight_table("balanced", two_targets)
    lines = ["smiles,split,a,b", "C,train,1,0", "CC,valid,0,1", "CCC,test,1,0"]
    other = table_task(tmp_path, lines, "a,b", "b", target_kind="binary")
    other.load_state_dict(two_targets.state_dict())
    assert weight_table("balanced", other).equal(weights)


def test_weights_of_other_targets_are_refused():
    criterion = BinaryLogLoss(task(), "1,5")
    criterion.class_weights = torch.ones(2, 2)
    with pytest.raises(ValueError, match=r"weights of classes .*\[2, 2\].*\[2, 1\]"):
        loss_of(criterion, [[1.0], [1.0]], [[1.0], [0.0]])


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
    assert loss_of(BinaryLogLoss(task(), "1,5"), [output], [target]) == (loss, size)
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
