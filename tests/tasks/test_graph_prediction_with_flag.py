"""FLAG: the perturbation against its closed form, and plain training as a limit."""

import copy
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import BaseFairseqModel
from torch import nn

from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.tasks.graph_prediction_with_flag import (
    GraphPredictionWithFlagConfig,
    GraphPredictionWithFlagTask,
)
from support.samples import sample_of

B, N, D = 3, 5, 4


class LinearModel(BaseFairseqModel):
    """Sum over the real nodes of w.(x + perturbation): the gradient is w everywhere."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0, -4.0]))
        self.seen = []

    def forward(self, batch, perturb=None):
        x = batch["x"]
        if perturb is not None:
            self.seen.append(perturb.detach().clone())
            x = x + perturb
        x = x * batch["node_mask"].unsqueeze(-1)
        return (x @ self.weight).sum(1, keepdim=True)


class Optimizer:
    def backward(self, loss):
        loss.backward()


def make_task(**options):
    cfg = GraphPredictionWithFlagConfig(**{"seed": 1, **options})
    task = GraphPredictionWithFlagTask(cfg)
    task.embed_dim = D
    return task


def make_sample():
    mask = torch.arange(N) < torch.tensor([[5], [2], [3]])
    x = torch.randn(B, N, D, generator=torch.Generator().manual_seed(0))
    target = torch.full((B, 1), 1e3, dtype=torch.float64)  # the residual's sign is sure
    return sample_of(target, {"x": x, "node_mask": mask})


def train_step(task, model, sample, **options):
    criterion = L1Loss(SimpleNamespace(targets=TargetSchema.of(["y"])))
    torch.manual_seed(0)
    return task.train_step(sample, model, criterion, Optimizer(), 0, **options)


def test_unlimited_perturbation_has_the_closed_form():
    m, step = 4, 0.01
    model, sample = LinearModel(), make_sample()
    train_step(make_task(flag_m=m, flag_step_size=step, flag_mag=0.0), model, sample)
    first, mask = model.seen[0], sample["net_input"]["batch"]["node_mask"]
    assert len(model.seen) == m and first.abs().max() <= step
    assert first[mask].all() and not first[~mask].any()
    assert "perturb" not in sample["net_input"]  # it is left as it was
    # the target is above: the loss falls with the output, its ascent is along -w
    ascent = -model.weight.detach().sign() * mask.unsqueeze(-1)
    for number, perturb in enumerate(model.seen):
        assert torch.allclose(perturb, first + number * step * ascent, atol=1e-7)


def test_limited_perturbation_is_projected_onto_the_ball():
    model, sample = LinearModel(), make_sample()
    task = make_task(flag_m=6, flag_step_size=0.05, flag_mag=0.1)
    train_step(task, model, sample)
    norms = torch.stack([perturb.norm(dim=-1) for perturb in model.seen])
    mask = sample["net_input"]["batch"]["node_mask"]
    assert norms[0].max() <= 0.1 and norms[:, mask].all() and not norms[:, ~mask].any()
    # far steps end on the ball, in the direction of the sign of the gradient
    assert torch.allclose(norms[-1][mask], torch.tensor(0.1))
    direction = -model.weight.detach().sign() * 0.05
    assert torch.allclose(model.seen[-1][mask], direction.expand(10, D), atol=0.01)


def test_one_pass_without_a_step_is_plain_training():
    flagged, plain, sample = LinearModel(), LinearModel(), make_sample()
    task = make_task(flag_m=1, flag_step_size=0.0, flag_mag=0.0)
    loss, size, log = train_step(task, flagged, sample)
    criterion = L1Loss(SimpleNamespace(targets=TargetSchema.of(["y"])))
    expected_loss, expected_size, expected_log = criterion(plain, sample)
    expected_loss.backward()
    assert torch.equal(loss, expected_loss) and size == expected_size
    assert torch.equal(flagged.weight.grad, plain.weight.grad)
    assert log == expected_log


def test_the_gradient_is_the_mean_over_the_passes():
    model, sample = LinearModel(), make_sample()
    train_step(make_task(flag_m=3, flag_step_size=0.1, flag_mag=0.0), model, sample)
    mean = torch.zeros_like(model.weight)
    criterion = L1Loss(SimpleNamespace(targets=TargetSchema.of(["y"])))
    for perturb in model.seen:
        again = copy.deepcopy(sample)
        again["net_input"]["perturb"] = perturb
        fresh = LinearModel()
        criterion(fresh, again)[0].backward()
        mean += fresh.weight.grad / 3
    assert torch.allclose(model.weight.grad, mean, rtol=1e-5)


def test_a_filler_batch_has_no_gradient():
    model = LinearModel()
    train_step(make_task(), model, make_sample(), ignore_grad=True)
    assert not model.weight.grad.any()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"flag_m": 0}, "--flag-m 0: expected 1"),
        ({"flag_step_size": -1.0}, "--flag-step-size -1.0"),
        ({"flag_mag": float("nan")}, "--flag-mag nan"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_task(**options)
