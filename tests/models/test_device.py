"""Training on a device: nothing waits for it, and it gives the numbers of a CPU."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.pyg import GraphLoss
from support.architectures import SMALLEST, TARGETS, make_batch, tiny_model


def moved(tensors, device):
    return {name: tensor.to(device) for name, tensor in tensors.items()}


@pytest.mark.parametrize("arch", SMALLEST)
def test_a_step_reads_no_value_of_a_tensor(arch, monkeypatch):
    """Tensors of torch's device "meta" have no values; what a GPU would be waited for is
    an error there."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    model = tiny_model(arch).train().to("meta")
    batch = moved(make_batch(model, [0, 2, 3]), "meta")
    target = torch.empty(3, 2, dtype=torch.float64, device="meta")
    sample = {"net_input": {"batch": batch}, "target": target}
    sample |= {"id": torch.arange(3), "ntokens": 1, "nsamples": 3}
    loss, size, _ = L1Loss(SimpleNamespace(targets=TARGETS)).train()(model, sample)
    (loss / size).backward()
    GraphLoss(TARGETS)(model(batch), target).backward()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("arch", SMALLEST)
def test_a_gpu_gives_the_numbers_of_a_cpu(arch):
    torch.manual_seed(0)
    model = tiny_model(arch).eval()
    batch = make_batch(model, [0, 2, 3])
    found = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        output = model(moved(batch, device))
        output.square().sum().backward()
        gradients = [weight.grad for weight in model.parameters()]
        found.append([tensor.cpu().clone() for tensor in (output.detach(), *gradients)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
