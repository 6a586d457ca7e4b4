"""One suite for every registered architecture, present and future."""

import pytest
import torch

from support.architectures import (
    ARCHITECTURES,
    NODES_ONLY,
    SMALLEST,
    VARIANTS,
    make_batch,
    rates_of,
    tiny_model,
)


@pytest.fixture(
    params=[
        *(pytest.param((arch, {}), id=arch) for arch in ARCHITECTURES),
        *NODES_ONLY,
        *VARIANTS,
    ]
)
def model(request):
    arch, options = request.param
    torch.manual_seed(0)
    return tiny_model(arch, **options)


def test_there_are_architectures():
    expected = {"grpe_tiny", "grpe_small", "grpe_standard", "grpe_large"}
    assert expected <= set(ARCHITECTURES)
    nodes_only = {case.values[0][0] for case in NODES_ONLY}
    assert {"grpe_tiny", "graphormer_slim"} <= nodes_only


def test_every_parameter_gets_a_finite_gradient(model):
    """A graph of a single node, which has one row for BatchNorm, is among the graphs."""
    for rows in ([1], range(6)):
        model.zero_grad()
        out = model(make_batch(model, rows))
        assert out.shape == (len(rows), 2) and out.dtype == torch.float32
        out.square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, f"{name} takes no part"
            assert parameter.grad.isfinite().all(), name


@torch.no_grad()
def test_state_dict_round_trip(model):
    batch = make_batch(model, range(6))
    out = model.eval()(batch)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.add_(1)
    assert not torch.equal(model(batch), out)
    model.load_state_dict(state)
    assert torch.equal(model(batch), out)


@torch.no_grad()
def test_batch_mates_padding_and_numbering_do_not_matter(model):
    model.double().eval()
    for weight in model.parameters():  # such as a virtual node, which starts at 0
        if not weight.any():
            torch.nn.init.normal_(weight)
    together = model(make_batch(model, range(6)))
    alone = torch.cat([model(make_batch(model, [row])) for row in range(6)])
    renumbered = model(make_batch(model, range(6), permute=True))
    for other in (alone, renumbered):
        assert (together - other).abs().max() < 1e-12 * together.abs().max().clamp(1)


def squared_gradients(model):
    """Gradients of the output by positions, if the model reads them, and by the vectors of the
    nodes: a loss on forces."""
    batch = make_batch(model, range(6))
    dtype = next(model.parameters()).dtype
    shape = torch.Size([*batch["x"].shape[:2], model.encoder.embed_dim])
    # Unequal nodes: equal ones tie for a maximum.
    perturb = torch.linspace(-0.5, 0.5, shape.numel(), dtype=dtype).sin().view(shape)
    inputs = [perturb.requires_grad_()]
    if "pos" in batch:
        batch["pos"] = batch["pos"].to(dtype).requires_grad_()
        inputs.append(batch["pos"])
    energy = model(batch, inputs[0]).square().sum()
    forces = torch.autograd.grad(energy, inputs, create_graph=True)
    return sum(force.square().sum() for force in forces)


def test_second_derivatives(model):
    """In float64 against differences; in float32, where attention is compiled, against
    float64."""
    weights = [*model.eval().parameters()]
    with torch.no_grad():
        for weight in weights:  # zeros are the kinks of activations
            weight += 0.1 * torch.randn_like(weight)
    single = torch.autograd.grad(squared_gradients(model), weights)
    model.double()
    double = torch.autograd.grad(squared_gradients(model), weights)
    scale = sum(gradient.square().sum() for gradient in double).sqrt()
    pairs = zip(single, double, strict=True)
    assert sum((a - b).square().sum() for a, b in pairs).sqrt() < 1e-3 * scale
    direction = [torch.randn_like(weight) for weight in weights]
    slope = sum((a * b).sum() for a, b in zip(double, direction))
    values = []
    step = 1e-7  # less than the way to the next kink
    for sign in (1, -2):
        with torch.no_grad():
            for weight, way in zip(weights, direction):
                weight += sign * step * way
        values.append(squared_gradients(model).item())
    difference = (values[0] - values[1]) / (2 * step)
    assert abs(difference - slope) < 1e-5 * scale


@pytest.mark.parametrize(
    "arch, options",
    [*((arch, {}) for arch in SMALLEST), *(x.values[0] for x in VARIANTS)],
)
def test_every_rate_acts_in_training_only(arch, options):
    names = rates_of(arch)
    for name in names:
        rates = {**dict.fromkeys(names, 0.0), name: 0.5}
        model = tiny_model(arch, **rates, **options)
        batch = make_batch(model, range(6))
        if "lap_pe" in batch:
            batch["seed"] = torch.arange(6)  # seeds of the signs
        assert not torch.equal(model(batch), model(batch)), name
        model.eval()
        assert torch.equal(model(batch), model(batch)), name


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        *(
            pytest.param(
                (arch, {}), id=arch, marks=[] if arch in SMALLEST else pytest.mark.slow
            )
            for arch in ARCHITECTURES
        ),
        *NODES_ONLY,
    ],
    indirect=True,
)
def test_overfits_eight_graphs(model):
    batch = make_batch(model, range(8), num_graphs=8)
    target = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    model.eval()  # no dropout: this is about capacity and gradients
    for _ in range(400):
        optimiser.zero_grad()
        loss = (model(batch) - target).square().mean()
        loss.backward()
        optimiser.step()
        if loss < 1e-3:
            break
    assert loss < 1e-3
