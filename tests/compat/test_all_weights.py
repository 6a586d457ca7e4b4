"""All weights at once next to fairseq's loops over them."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import utils
from fairseq.optim import FP16Optimizer
from fairseq.optim.adam import FairseqAdamConfig
from omegaconf import OmegaConf

from graphormer_plugin.optim import AdamW


def weights():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(n, 3)) for n in (1, 5, 2)]


def test_the_norm_of_all_gradients():
    params = weights()
    for weight in params[:2]:
        weight.grad = torch.randn(weight.shape)
    flat = torch.cat([weight.grad.flatten() for weight in params[:2]])
    norm = utils.clip_grad_norm_(params, 0.5)
    assert torch.allclose(norm, flat.norm(), rtol=1e-6)
    clipped = torch.cat([weight.grad.flatten() for weight in params[:2]])
    assert torch.allclose(clipped, flat * 0.5 / (flat.norm() + 1e-6), rtol=1e-6)
    assert params[2].grad is None


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("dtypes", [[torch.bfloat16], [torch.bfloat16, torch.float32]])
def test_halves_take_the_steps_of_their_copies(dtypes, flatten, monkeypatch):
    """The steps of weights in float32, rounded; a weight without a gradient stays."""
    adam = OmegaConf.structured(FairseqAdamConfig(lr=[0.01]))
    common = SimpleNamespace(bf16=True, fp16_scale_window=1)
    cfg = SimpleNamespace(optimizer=adam, common=common)
    wides = [weight.detach().bfloat16().float() for weight in weights()]
    wides = [torch.nn.Parameter(weight) for weight in wides]
    halves = [
        torch.nn.Parameter(weight.detach().clone().to(dtypes[number % len(dtypes)]))
        for number, weight in enumerate(wides)
    ]
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    wide = FP16Optimizer.build_fp32_params(cfg, halves, flatten=flatten)
    copies = list(wide.values()) if flatten else wide
    optimizer = FP16Optimizer(cfg, halves, AdamW(adam, copies), wide)
    expected = AdamW(adam, wides)
    for step in range(3):
        optimizer.zero_grad()
        assert not any(copy.grad.any() for copy in copies)
        expected.zero_grad()
        for half, wide in zip(halves[:2], wides):
            half.grad = torch.randn(half.shape).to(half.dtype)
            wide.grad = half.grad.float()
        wides[2].grad = torch.zeros_like(wides[2])
        optimizer._needs_sync = True
        optimizer.clip_grad_norm(0.1)
        expected.clip_grad_norm(0.1)
        optimizer.step()
        expected.step()
        for half, wide in zip(halves, wides):
            assert torch.allclose(half.float(), wide.to(half.dtype).float(), 1e-5), step
