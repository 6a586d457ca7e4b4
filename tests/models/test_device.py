"""Training on a device: nothing waits for it, and it gives the numbers of a CPU.

Without a GPU the tests of numbers run on the CPU alone, in the same types.
"""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.modules.layers.batch_norm import has_batch_norm
from graphormer_plugin.modules.layers.graph_random import FLAG, uniform
from graphormer_plugin.pyg import GraphLoss
from support.architectures import (
    SMALLEST,
    TARGETS,
    VARIANTS,
    make_batch,
    rates_of,
    tiny_model,
)
from support.samples import sample_of

DEVICES = ["cpu"]
if torch.cuda.is_available():
    DEVICES.append("cuda")
TARGET = torch.tensor([[0.5, -1.0], [1.0, float("nan")], [-0.5, 2.0]]).double()
# Weights, type of autocast, and how far norms may be off, with a BatchNorm too.
PRECISIONS = {
    "float32": (torch.float32, None, 1e-3, 1e-3),
    "float16": (torch.float16, None, 2e-2, 2e-1),
    "bfloat16": (torch.bfloat16, None, 1e-1, 4e-1),
    "amp float16": (torch.float32, torch.float16, 2e-2, 2e-1),
    "amp bfloat16": (torch.float32, torch.bfloat16, 1e-1, 4e-1),
}


def moved(tensors, device, dtype=None):
    return {
        name: tensor.to(device, dtype if tensor.is_floating_point() else None)
        for name, tensor in tensors.items()
    }


# They ask once in a step how many pairs, or edges, there are.
ASKING = ("grit_zinc", "tokengt_small")


@pytest.mark.parametrize("arch", [arch for arch in SMALLEST if arch not in ASKING])
def test_a_step_reads_no_value_of_a_tensor(arch, monkeypatch):
    """Tensors of torch's device "meta" have no values; what a GPU would be waited for is
    an error there."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    model = tiny_model(arch).train().to("meta")
    batch = moved(make_batch(model, [0, 2, 3]), "meta")
    target = TARGET.to("meta")
    sample = sample_of(target, batch)
    loss, size, _ = L1Loss(SimpleNamespace(targets=TARGETS)).train()(model, sample)
    (loss / size).backward()
    GraphLoss(TARGETS)(model(batch), target).backward()


def without_dropout(arch, **options):
    return tiny_model(arch, **dict.fromkeys(rates_of(arch), 0.0), **options)


def step(model, device, dtype, autocast=None, perturb=None):
    """Output, gradients of all weights, and of the perturbation, float64 on the CPU."""
    model.to(device, dtype).zero_grad()
    batch = moved(make_batch(model, [0, 2, 3]), device, dtype)
    batch["seed"] = torch.tensor([1, 2, 3], device=device)  # signs of eigenvectors
    if perturb is not None:
        perturb = perturb.to(device, dtype).requires_grad_()
    with torch.autocast(device, autocast, enabled=autocast is not None):
        output = model(batch, perturb)
        loss = GraphLoss(TARGETS)(output, TARGET.to(device))
    loss.backward()
    found = [weight.grad for weight in model.parameters()]
    found += [] if perturb is None else [perturb.grad]
    flat = torch.cat([tensor.detach().flatten().double().cpu() for tensor in found])
    return output.detach().double().cpu(), flat


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "arch, options",
    [*((arch, {}) for arch in SMALLEST), *(x.values[0] for x in VARIANTS)],
)
def test_outputs_and_gradients_are_those_of_float64(arch, options, precision, device):
    """In training mode, where a BatchNorm reads the batch. Rounding may switch a ReLU, which
    changes a gradient by a leap: other weights decide then."""
    dtype, autocast, *tolerances = PRECISIONS[precision]
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = without_dropout(arch, **options).train()
        expected = step(model, "cpu", torch.float64)
        found = step(model, device, dtype, autocast)
        pairs = zip(found, expected, strict=True)
        off = [float((ours - wanted).norm() / wanted.norm()) for ours, wanted in pairs]
        if max(off) < tolerances[has_batch_norm(model)]:
            return
    raise AssertionError(off)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arch", SMALLEST)
def test_the_gradient_of_a_perturbation(arch, device):
    """FLAG: random numbers of a graph do not depend on the device."""
    torch.manual_seed(0)
    model = without_dropout(arch).eval().double()
    mask = make_batch(model, [0, 2, 3])["node_mask"]
    shape = torch.Size([*mask.shape, model.embed_dim])
    seed = torch.tensor([1, 2, 3])
    drawn = [
        uniform(seed.to(on), shape, FLAG, mask.to(on).float()) for on in ("cpu", device)
    ]
    assert torch.equal(drawn[0], drawn[1].cpu())
    perturb = drawn[0] * mask.unsqueeze(-1)
    expected = step(model, "cpu", torch.float64, perturb=perturb)
    found = step(model, device, torch.float32, perturb=perturb)
    for ours, wanted in zip(found, expected, strict=True):
        assert (ours - wanted).norm() < 1e-3 * wanted.norm()
    of_nodes = expected[1][-perturb.numel() :].view(shape).abs().sum(-1)
    assert (of_nodes > 0).equal(mask)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
@pytest.mark.parametrize("arch", SMALLEST)
def test_a_training_with_dropout_learns(arch, autocast, device):
    torch.manual_seed(0)
    model = tiny_model(arch).to(device).train()
    batch = moved(make_batch(model, range(6)), device)
    target = torch.linspace(-1, 1, 12, device=device).view(6, 2).double()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        with torch.autocast(device, autocast, enabled=autocast is not None):
            loss = GraphLoss(TARGETS, "mse")(model(batch), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < sum(losses[:5])
