"""Losses against formulas: masking, class weights, dtypes, kinds of target."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.logging import metrics
from sklearn.metrics import f1_score
from torch.nn import functional as F

from graphormer_plugin.criterions.binary_logloss import BinaryLogLoss
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.mse_loss import MSELoss
from graphormer_plugin.criterions.multiclass_cross_entropy import MulticlassCrossEntropy
from graphormer_plugin.criterions.weighted_cross_entropy import WeightedCrossEntropy
from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.targets import Kind, TargetSchema
from support.samples import sample_of

NAN = math.nan
INF = math.inf
VALUES = TargetSchema.of(["a", "b"], "eV", mean=[1.0, 2.0], std=[2.0, 4.0])
TASKS = TargetSchema.of(["a", "b"], kind="binary")
CLASSES = TargetSchema.of(["y"], kind="multiclass", num_classes=3)
NODES = TargetSchema.of(["y"], kind="multiclass", level="node", num_classes=3)
NODE_VALUES = dataclasses.replace(VALUES, level=Level.NODE)
NODE_TASKS = dataclasses.replace(TASKS, level=Level.NODE)
ALL = [
    (L1Loss, NODE_VALUES),
    (MSELoss, NODE_VALUES),
    (BinaryLogLoss, NODE_TASKS),
    (L1Loss, VALUES),
    (MSELoss, VALUES),
    (BinaryLogLoss, TASKS),
    (MulticlassCrossEntropy, CLASSES),
    (MulticlassCrossEntropy, NODES),
    (WeightedCrossEntropy, CLASSES),
    (WeightedCrossEntropy, NODES),
]


class Fixed(torch.nn.Module):
    """Returns its parameter, whatever the batch."""

    def __init__(self, output):
        super().__init__()
        if not isinstance(output, torch.Tensor) or output.dtype == torch.float64:
            output = torch.as_tensor(output, dtype=torch.float32)
        self.output = torch.nn.Parameter(output)

    def forward(self, batch):
        return self.output


def run(loss_class, targets, output, target, training=True, **more):
    """Criterion, model, loss, size, logs of one batch; labels of nodes are [B, N] or
    [B, N, C]."""
    criterion = loss_class(SimpleNamespace(targets=targets)).train(training)
    model = Fixed(output)
    classes = targets.level == "node" and targets.kind == "multiclass"
    target = torch.as_tensor(target, dtype=torch.int64 if classes else torch.float64)
    target = target.reshape(*np.shape(output)[:-1], -1)
    sample = sample_of(target, **more)
    return criterion, model, *criterion(model, sample)


def reported(criterion, logs, evaluations=(None,)):
    with metrics.aggregate(new_root=True) as values:
        for evaluation in evaluations:
            criterion.reduce_metrics(logs)
            criterion.report(logs, evaluation)
    return values.get_smoothed_values()


def random_batch(targets, rng, missing=0.3):
    graphs, nodes = 6, 5
    shape = [graphs, nodes] if targets.level == "node" else [graphs]
    output = rng.standard_normal([*shape, targets.num_outputs])
    if targets is NODES:
        target = rng.integers(0, 3, shape)
        target[rng.random(shape) < missing] = -1
        return output, target
    target = rng.integers(0, 2, [*shape, len(targets.names)]).astype(float)
    target[rng.random(target.shape) < missing] = NAN
    return output, target


@pytest.mark.parametrize("kind", Kind)
def test_the_loss_of_a_kind_takes_it(kind):
    assert kind in CRITERION_REGISTRY[kind.loss].target_kinds


@pytest.mark.parametrize("loss_class, targets", ALL)
def test_without_any_label_loss_and_gradient_are_zero(loss_class, targets, rng):
    output, target = random_batch(targets, rng, missing=1.0)
    criterion, model, loss, size, logs = run(loss_class, targets, output, target)
    loss.backward()
    assert loss.item() == 0.0 and size.item() == 0
    assert not model.output.grad.any()
    values = reported(criterion, [logs])
    assert values["loss"] == 0.0
    rest = set(values) - {"loss"}
    assert rest and all(math.isnan(values[name]) for name in rest)
    # and a batch with labels beside it decides alone
    output, target = random_batch(targets, rng, missing=0.0)
    _, _, _, _, good = run(loss_class, targets, output, target)
    both, alone = reported(criterion, [logs, good]), reported(criterion, [good])
    assert both == alone


@pytest.mark.parametrize("loss_class, targets", ALL)
def test_everything_logged_is_a_sum_in_float64(loss_class, targets, rng):
    output, target = random_batch(targets, rng)
    criterion, _, _, _, logs = run(loss_class, targets, output, target)
    assert criterion.logging_outputs_can_be_summed()
    names = logs.keys() - {"ntokens", "nsentences"}
    assert names and all(logs[name].dtype == torch.float64 for name in names)
    twice = {name: value + value for name, value in logs.items()}
    assert reported(criterion, [twice]) == reported(criterion, [logs, logs])


@pytest.mark.parametrize("loss_class, targets", ALL)
def test_other_kinds_of_target_are_refused(loss_class, targets):
    other = TASKS if loss_class.name != "binary_logloss" else VALUES
    with pytest.raises(ValueError, match=f"{loss_class.name} needs .* targets a, b"):
        loss_class(SimpleNamespace(targets=other))


@pytest.mark.parametrize("loss_class, targets", ALL)
def test_a_wrong_output_is_refused(loss_class, targets, rng):
    output, target = random_batch(targets, rng)
    with pytest.raises(ValueError, match=r"model output has shape .* needs \[6, "):
        run(loss_class, targets, output[..., :1], target)


def test_squared_error_is_standardised_and_metrics_are_in_the_unit():
    output, target = [[0.0, 1.0], [1.0, 0.0]], [[3.0, 2.0], [3.0, NAN]]
    criterion, _, loss, size, logs = run(MSELoss, VALUES, output, target)
    # predictions 1 and 3 of a, 6 of b; standardised errors -1, 0 and 1
    assert (loss.item(), size.item()) == (2.0, 3)
    values = reported(criterion, [logs])
    assert values["mae_a"] == 1.0 and values["mae_b"] == 4.0 and values["mae"] == 2.5
    assert values["rmse_a"] == math.sqrt(2.0) and values["rmse_b"] == 4.0
    assert values["rmse"] == pytest.approx((math.sqrt(2.0) + 4.0) / 2, abs=1e-15)
    # In units of the deviations of training, 2 and 4, no target counts more.
    assert values["nrmse"] == pytest.approx((math.sqrt(2.0) / 2 + 1) / 2, abs=1e-15)
    for targets in (
        VALUES.raw(),
        TargetSchema.of(["a"], "", "regression", mean=[0.0], std=[2.0]),
    ):
        width = len(targets.names)
        rows = [[row[:width] for row in part] for part in (output, target)]
        criterion, *_, logs = run(MSELoss, targets, *rows)
        found = reported(criterion, [logs])
        assert "nrmse" not in {*found, *criterion.known_metrics()}
        assert ("mae_a" in found) == (width > 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_outputs_are_summed_in_float32(dtype):
    targets = TargetSchema.of(["a"], mean=[0.0], std=[1.0])
    output = torch.full((5000, 1), 1.0, dtype=dtype)
    criterion, _, loss, _, logs = run(L1Loss, targets, output, [[2049.0]] * 5000)
    assert loss.dtype == torch.float32 and loss.item() == 2048.0 * 5000
    assert reported(criterion, [logs])["mae"] == 2048.0


def test_fp16_keeps_the_standardisation():
    targets = TargetSchema.of(["a"], mean=[70000.123], std=[0.001])
    criterion = L1Loss(SimpleNamespace(targets=targets)).half()
    sample = sample_of(torch.tensor([[70000.124]], dtype=torch.float64))
    loss, _, logs = criterion(Fixed(torch.zeros(1, 1).half()), sample)
    assert loss.item() == pytest.approx(1.0, rel=1e-4)
    assert reported(criterion, [logs])["mae"] == pytest.approx(0.001, rel=1e-4)


def test_the_report_of_a_training_refuses_a_loss_that_is_not_finite(fresh_fairseq):
    """The loss itself is looked at on a CPU only, since a GPU would be waited for."""
    targets = TargetSchema.of(["a"], mean=[0.0], std=[1.0])
    criterion, _, _, _, logs = run(L1Loss, targets, [[1.0]], [[0.0]])
    logs = {**logs, "loss": torch.tensor(math.nan)}
    with metrics.aggregate(), pytest.raises(FloatingPointError, match="loss is nan"):
        criterion.report([logs])


def test_meters_survive_a_checkpoint(fresh_fairseq):
    targets = TargetSchema.of(["a", "b"], mean=[0.0, 0.0], std=[1.0, 1.0])
    criterion, _, _, _, logs = run(L1Loss, targets, [[1.0, 2.0]], [[0.0, 0.0]])
    with metrics.aggregate("resumed"):
        criterion.report([logs])
    state = metrics.state_dict()
    metrics.reset_meters("resumed")
    metrics.load_state_dict(state)
    with metrics.aggregate("resumed") as values:
        criterion.report([logs])
        assert values["_mae_count"].sum.tolist() == [2.0, 2.0]
        assert values.get_smoothed_values()["mae_b"] == 2.0
    metrics.reset()


def naive_losses(loss_class, output, label):
    """Loss, and error in the unit or whether the class is right, of a cell with two targets."""
    if loss_class is BinaryLogLoss:
        hit = (output > 0) == (label > 0)
        return [np.log1p(np.exp(-x if y else x)) for x, y in zip(output, label)], hit
    scale = np.array(VALUES.std)
    error = output - (label - VALUES.mean) / scale
    losses = error**2 if loss_class is MSELoss else np.abs(error)
    return losses, np.abs(error) * scale


@pytest.mark.parametrize("loss_class, targets", ALL[:3])
def test_several_targets_of_nodes(loss_class, targets, rng):
    """Against a loop in float64; nodes may have any order, and graphs any batch."""
    output, target = random_batch(targets, rng)
    cells = {name: [] for name in "ab"}
    total = 0.0
    for graph, node in np.ndindex(target.shape[:2]):
        row = naive_losses(loss_class, output[graph, node], target[graph, node])
        for name, label, loss, result in zip("ab", target[graph, node], *row):
            if not math.isnan(label):
                total += loss
                cells[name].append(result)
    criterion, model, loss, size, logs = run(loss_class, targets, output, target)
    assert loss.item() == pytest.approx(total, rel=1e-5)
    assert size.item() == len(cells["a"]) + len(cells["b"])
    loss.backward()
    missing = np.isnan(target)
    assert missing.any() and not missing.all()
    assert not model.output.grad[torch.as_tensor(missing)].any()
    assert model.output.grad[torch.as_tensor(~missing)].all()
    values = reported(criterion, [logs])
    means = [np.mean(results) for results in cells.values()]
    metric = "accuracy" if loss_class is BinaryLogLoss else "mae"
    assert values[metric] == pytest.approx(np.mean(means), rel=1e-5)
    if metric == "mae":
        assert [values["mae_a"], values["mae_b"]] == pytest.approx(means, rel=1e-5)
    order = rng.permutation(target.shape[1])
    parts = [
        run(loss_class, targets, output[i : i + 1, order], target[i : i + 1, order])
        for i in range(len(target))
    ]
    losses, sizes, logs = zip(*(part[2:] for part in parts))
    assert sum(losses).item() == pytest.approx(total, rel=1e-5)
    assert sum(sizes) == size
    assert reported(criterion, logs) == pytest.approx(values, rel=1e-5)


def test_extreme_logits_of_missing_labels_do_no_harm():
    output, target = [[3e38, 0.0], [-3e38, 0.0]], [[NAN, 1.0], [NAN, 0.0]]
    _, model, loss, _, _ = run(BinaryLogLoss, TASKS, output, target)
    loss.backward()
    assert loss.item() == pytest.approx(2 * math.log(2))
    assert model.output.grad.isfinite().all()
    _, model, loss, _, _ = run(MSELoss, VALUES, [[1e30, 0.0]], [[NAN, 2.0]])
    loss.backward()
    assert loss.item() == 0 and model.output.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("targets", [CLASSES, NODES])
def test_cross_entropy_of_classes(targets, rng):
    if targets is NODES:
        output, target = random_batch(NODES, rng)
    else:
        output = rng.standard_normal([6, 3])
        target = np.array([[0.0], [2.0], [NAN], [1.0], [2.0], [NAN]])
    criterion, _, loss, size, logs = run(
        MulticlassCrossEntropy, targets, output, target
    )
    flat = torch.as_tensor(output).flatten(0, -2)
    label = torch.as_tensor(np.nan_to_num(target, nan=-1.0)).flatten().long()
    expected = F.cross_entropy(flat, label, ignore_index=-1)
    assert (loss / size).item() == pytest.approx(expected.item(), rel=1e-6)
    right = (flat.argmax(1) == label)[label >= 0].double().mean().item()
    values = reported(criterion, [logs])
    assert values["accuracy"] == pytest.approx(right, abs=1e-15)
    pair = label[label >= 0], flat.argmax(1)[label >= 0]
    expected = f1_score(*pair, average="macro")
    assert values["macro_f1"] == pytest.approx(expected, abs=1e-15)


def test_weights_come_from_the_batch(rng):
    """The benchmark's formula, written as in its description."""
    output, target = random_batch(NODES, rng)
    target[target == 1] = 0  # a class that does not occur
    _, _, loss, size, _ = run(WeightedCrossEntropy, NODES, output, target)
    label = torch.as_tensor(target).flatten()
    real = label >= 0
    flat, label = torch.as_tensor(output).flatten(0, 1)[real], label[real]
    total = len(label)
    count = torch.bincount(label, minlength=3)
    weight = (total - count).double() / total * (count > 0)
    expected = F.cross_entropy(flat, label, weight=weight)
    assert (loss / size).item() == pytest.approx(expected.item(), rel=1e-6)


def test_one_class_in_the_batch_has_no_weight():
    output = [[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]
    _, model, loss, size, _ = run(WeightedCrossEntropy, NODES, output, [[1, 1]])
    loss.backward()
    assert loss.item() == 0.0 and size.item() == 0.0
    assert not model.output.grad.any()


def test_weighted_accuracy_of_the_split_and_of_its_batches():
    def hot(*classes):
        return torch.eye(3)[torch.tensor(classes)][None]

    # batch 1: class 0 found twice of three times, class 1 found; 2 is predicted only
    one = run(WeightedCrossEntropy, NODES, hot(0, 0, 2, 1), [[0, 0, 0, 1]])
    # batch 2: class 0 not found, class 1 found; the last node is padding
    two = run(WeightedCrossEntropy, NODES, hot(1, 1, 2), [[0, 1, -1]])
    values = reported(one[0], [one[-1], two[-1]])
    assert values["accuracy"] == pytest.approx(4 / 6)
    assert values["weighted_accuracy"] == pytest.approx((2 / 4 + 2 / 2) / 2)
    batches = [(2 / 3 + 1 + 0) / 3, (0 + 1) / 2]
    assert values["weighted_accuracy_batch"] == pytest.approx(sum(batches) / 2)


def test_rows_are_kept_in_evaluation_only(rng):
    output, target = random_batch(TASKS, rng)
    assert "outputs" not in run(BinaryLogLoss, TASKS, output, target)[-1]
    logs = run(BinaryLogLoss, TASKS, output, target, training=False)[-1]
    assert torch.equal(logs["outputs"][0], torch.as_tensor(output, dtype=torch.float32))
    assert "outputs" not in run(L1Loss, VALUES, output, target, training=False)[-1]


@pytest.mark.parametrize("loss_class, power", [(L1Loss, 1), (MSELoss, 2)])
def test_bounds(loss_class, power):
    """No loss where the output lies beyond a bound or inside an interval, and no part in any
    metric; outside, the nearer end counts."""
    target = [[1.0, 6], [3, NAN], [5, 2], [3.5, 10]]
    # 3 and 4; 1 and 14; -1 and 6; 3 and 6 in the unit
    output = [[1.0, 0.5], [0, 3], [-1, 1], [1, 1]]
    bound = torch.tensor([[INF, INF], [-INF, 0], [0, -INF], [0.6, 1]])
    for training, present in ((True, 7), (False, 1)):
        found = run(loss_class, VALUES, output, target, training, bound=bound)
        criterion, model, loss, size, logs = found
        errors = [6 / 2, 2 / 4, 4 / 4, 3 / 4] if training else [6 / 2]
        assert loss.item() == pytest.approx(sum(x**power for x in errors))
        assert size == present
        assert logs["abs_error"].tolist() == [6, 0]
        assert logs["count"].tolist() == [1, 0]
    loss.backward()
    assert model.output.grad.count_nonzero() == 1
    narrow = TargetSchema.of(["a"], "eV", mean=[70000.123], std=[0.001])
    bound = torch.tensor([[INF], [INF]])  # float32 has steps of 0.008 there
    target = [[70000.124], [70000.124]]
    _, _, loss, *_ = run(loss_class, narrow, [[0.5], [1.5]], target, bound=bound)
    assert loss.item() == pytest.approx(0.5**power, rel=1e-4)
