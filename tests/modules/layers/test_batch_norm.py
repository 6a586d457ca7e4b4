"""MaskedBatchNorm: torch's BatchNorm of the rows that count, and nothing else."""

import pytest
import torch
from torch import nn

from graphormer_plugin.modules import MaskedBatchNorm
from graphormer_plugin.modules.layers import batch_norm
from graphormer_plugin.modules.layers.batch_norm import (
    _NormaliseTogether,
    running_statistics_kept,
)


def mask_and_rows(dtype=torch.float64):
    torch.manual_seed(0)
    mask = torch.rand(4, 7) < 0.6
    x = torch.randn(4, 7, 5, dtype=dtype) * 3 + 2
    x[~mask] = float("inf")
    return mask, x


def test_equals_torch_on_the_rows_that_count():
    mask, x = mask_and_rows()
    ours, torchs = MaskedBatchNorm(5).double(), nn.BatchNorm1d(5).double()
    with torch.no_grad():
        for norm in (ours, torchs):
            norm.weight.copy_(torch.arange(1, 6) / 2)
            norm.bias.copy_(torch.arange(5))
    for training in (True, True, False):
        ours.train(training), torchs.train(training)
        rows = x[mask].requires_grad_()
        expected = torchs(rows)
        inputs = x.clone().requires_grad_()
        out = ours(inputs, mask.flatten().nonzero().squeeze(1))
        assert (out[mask] - expected).abs().max() < 1e-12
        assert (out[~mask] == 0).all()
        weights = torch.randn(expected.shape, dtype=torch.float64)
        (expected * weights).sum().backward()
        (out[mask] * weights).sum().backward()
        assert (inputs.grad[mask] - rows.grad).abs().max() < 1e-12
        assert (inputs.grad[~mask] == 0).all()
        for name in ("weight", "bias"):
            ours_grad, grad = (getattr(norm, name).grad for norm in (ours, torchs))
            assert (ours_grad - grad).abs().max() < 1e-12, name
        for name in ("running_mean", "running_var"):
            error = (getattr(ours, name) - getattr(torchs, name)).abs().max()
            assert error < 1e-12, name


def test_no_mask_means_every_row():
    x = torch.randn(6, 5)
    expected = MaskedBatchNorm(5)(x, torch.arange(6))
    assert torch.equal(MaskedBatchNorm(5)(x), expected)


def test_one_row_and_no_row():
    norm = MaskedBatchNorm(3)
    norm.bias.data += 1
    assert torch.equal(norm(torch.full((1, 1, 3), 7.0)), torch.ones(1, 1, 3))
    assert torch.allclose(norm.running_mean, torch.tensor(0.7))
    no_row = torch.zeros(0, dtype=torch.int64)
    assert torch.equal(norm(torch.ones(2, 3), no_row), torch.zeros(2, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_of_a_model_of_halves_are_float32(dtype):
    """60,000 squared overflows float16, and 0.1 of a small step vanishes in it."""
    norm = MaskedBatchNorm(2)
    norm.running_mean += 1 / 3
    norm.to(dtype)
    assert norm.weight.dtype == torch.float32
    assert torch.equal(norm.running_mean, torch.full((2,), 1 / 3))
    x = torch.tensor([[60000.0, -60000.0], [-60000.0, 60000.0]], dtype=dtype)
    out = norm(x)
    assert out.dtype == dtype and torch.equal(out, x.sign())
    assert norm.running_var.dtype == torch.float32
    assert torch.allclose(norm.running_var, torch.tensor(0.9 + 0.2 * 60000.0**2), 1e-2)
    assert norm.double().running_var.dtype == torch.float64


def test_frozen_weights_freeze_the_statistics():
    norm = MaskedBatchNorm(2)
    norm.weight.requires_grad = norm.bias.requires_grad = False
    x = torch.randn(9, 2) * 4
    out = norm(x)
    assert torch.allclose(out, x, atol=1e-4)
    assert torch.equal(norm.running_mean, torch.zeros(2))


@pytest.mark.parametrize("number", [1, 4])
def test_second_derivatives_of_one_process(number):
    """A single row and torch's own code; `_NormaliseTogether` also has more rows."""
    torch.manual_seed(0)
    norm = MaskedBatchNorm(3).double()
    x = torch.randn(number, 3, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(3).double().requires_grad_() for _ in range(2))
    assert torch.autograd.gradgradcheck(norm, x)

    def together(*inputs):
        return _NormaliseTogether.apply(1e-5, *inputs)[0]

    assert torch.autograd.gradgradcheck(together, (x, weight, bias))


def test_no_second_derivative_of_several_processes(monkeypatch):
    monkeypatch.setattr(batch_norm, "several_processes", lambda: True)
    x = torch.randn(4, 3, requires_grad=True)
    out = MaskedBatchNorm(3)(x)
    torch.autograd.grad(out.sum(), x, retain_graph=True)
    with pytest.raises(NotImplementedError, match="one process"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_no_rows_leave_no_trace():
    norm = MaskedBatchNorm(3)
    norm(torch.randn(8, 3))
    before = [b.clone() for b in norm.buffers()]
    norm(torch.zeros(0, 3)).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(before, norm.buffers()))
    assert not norm.weight.grad.any()


def test_a_second_pass_leaves_the_statistics():
    norm, x = MaskedBatchNorm(3), torch.randn(8, 3)
    first = norm(x)
    before = [b.clone() for b in norm.buffers()]
    with running_statistics_kept():
        assert torch.equal(norm(x), first)
        norm(x[:1])
    assert all(torch.equal(a, b) for a, b in zip(before, norm.buffers()))
