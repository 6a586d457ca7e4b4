"""L1 loss: masking, dtypes, units, and the mean over the whole split."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics

from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.data.schema import TargetSchema

NAN = math.nan


def schema(names=("a",), mean=None, std=None, **kwargs):
    names = list(names)
    mean = [0.0] * len(names) if mean is None else mean
    std = [1.0] * len(names) if std is None else std
    return TargetSchema(names=names, unit="eV", mean=mean, std=std, **kwargs)


class Constant(torch.nn.Module):
    """Returns its parameter, whatever the batch."""

    def __init__(self, output):
        super().__init__()
        self.output = torch.nn.Parameter(output)

    def forward(self, batch):
        return self.output


def sample_of(target):
    target = torch.tensor(target, dtype=torch.float64)
    return {
        "net_input": {"batch": {}},
        "target": target,
        "ntokens": 3 * len(target),
        "nsamples": len(target),
    }


def run(targets, output, target):
    criterion = L1Loss(SimpleNamespace(targets=targets))
    model = Constant(torch.as_tensor(output))
    loss, size, logs = criterion(model, sample_of(target))
    return criterion, model, loss, size, logs


def reported(criterion, logs):
    with metrics.aggregate(new_root=True) as values:
        for log in logs:
            criterion.reduce_metrics([log])
            criterion.report([log])
    return values.get_smoothed_values()


def test_loss_is_standardised_and_mae_is_in_the_unit():
    targets = schema(mean=[10.0], std=[4.0])
    criterion, _, loss, size, logs = run(targets, [[0.0], [1.0]], [[12.0], [14.0]])
    assert loss.item() == pytest.approx(0.5)
    assert size.item() == 2
    values = reported(criterion, [logs])
    assert values["loss"] == pytest.approx(0.25)
    assert values["mae"] == pytest.approx(1.0)
    assert "mae_a" not in values


def test_mae_is_that_of_the_split_not_a_mean_of_batch_means():
    targets = schema()
    criterion, _, _, _, one = run(targets, [[1.0]], [[0.0]])
    _, _, _, _, two = run(targets, [[0.0]] * 3, [[0.0]] * 3)
    values = reported(criterion, [one, two])
    assert values["mae"] == 0.25
    assert values["loss"] == 0.25


def test_missing_targets_are_masked_per_target():
    targets = schema(("a", "b"))
    output = [[1.0, 5.0], [1.0, 2.0], [3.0, 9.0]]
    target = [[0.0, NAN], [NAN, 0.0], [0.0, NAN]]
    criterion, model, loss, size, logs = run(targets, output, target)
    loss.backward()
    assert size.item() == 3
    assert model.output.grad.tolist() == [[1, 0], [0, 1], [1, 0]]
    values = reported(criterion, [logs])
    assert values["mae_a"] == 2.0
    assert values["mae_b"] == 2.0
    assert values["mae"] == 2.0  # of targets, not of the three values


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_outputs_are_summed_in_float32(dtype):
    output = torch.full((5000, 1), 1.0, dtype=dtype)
    target = [[2049.0]] * 5000
    criterion, _, loss, _, logs = run(schema(), output, target)
    assert loss.dtype == torch.float32
    assert loss.item() == 2048.0 * 5000
    assert reported(criterion, [logs])["mae"] == 2048.0


def test_fp16_keeps_the_standardisation():
    targets = schema(mean=[70000.123], std=[0.001])
    criterion = L1Loss(SimpleNamespace(targets=targets)).half()
    loss, _, logs = criterion(
        Constant(torch.zeros(1, 1).half()), sample_of([[70000.124]])
    )
    assert loss.item() == pytest.approx(1.0, rel=1e-4)
    assert reported(criterion, [logs])["mae"] == pytest.approx(0.001, rel=1e-4)


def test_meters_survive_a_checkpoint(fresh_fairseq):
    criterion, _, _, _, logs = run(schema(("a", "b")), [[1.0, 2.0]], [[0.0, 0.0]])
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


def test_values_of_nodes():
    """Padding and missing values do not count; errors are in the unit."""
    targets = schema(mean=[10.0], std=[4.0], level="node")
    output = torch.tensor([[[0.0], [1.0], [9.0]], [[0.5], [9.0], [9.0]]])
    target = [[10.0, 16.0, NAN], [8.0, NAN, NAN]]
    criterion, model, loss, size, log = run(targets, output, target)
    # standardised targets 0, 1.5, -0.5
    assert loss.item() == pytest.approx(0 + 0.5 + 1) and size == 3
    loss.backward()
    grad = model.output.grad.squeeze(-1)
    assert grad.tolist() == [[0, -1, 0], [1, 0, 0]]
    values = reported(criterion, [log])
    assert values["mae"] == pytest.approx((0 + 2 + 4) / 3)
    assert values["rmse"] == pytest.approx(math.sqrt((4 + 16) / 3))
