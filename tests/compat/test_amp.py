"""Gradients of `--amp`, with torch's scaler for CPUs."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.optim import AMPOptimizer
from fairseq.optim.adam import FairseqAdamConfig
from omegaconf import OmegaConf

from graphormer_plugin.optim import AdamW


@pytest.mark.filterwarnings("ignore:.*GradScaler:FutureWarning")
@pytest.mark.filterwarnings("ignore:torch.cuda.amp.GradScaler is enabled")
def test_the_scale_of_the_loss_changes_no_step():
    common = SimpleNamespace(fp16_init_scale=1, min_loss_scale=1e-4)
    adam = OmegaConf.structured(FairseqAdamConfig(lr=[0.01]))
    found = []
    for scale in (1.0, 2.0**20):
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        cfg = SimpleNamespace(optimizer=adam, common=common)
        optimizer = AMPOptimizer(cfg, [weight], AdamW(adam, [weight]))
        optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        for _ in range(3):
            optimizer.zero_grad()
            optimizer.backward((1e-3 * weight**2).sum())
            optimizer.clip_grad_norm(1e-3)
            assert weight.grad.norm() < 1.001e-3
            optimizer.step()
        found.append(weight.detach())
    torch.testing.assert_close(*found, rtol=1e-5, atol=0)
    assert (found[0] != torch.tensor([1.0, -2.0])).all()
