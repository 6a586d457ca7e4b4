"""One suite for every registered architecture, present and future."""

import pytest
import torch

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.models import build_model
from support.architectures import (
    ARCHITECTURES,
    NODES_ONLY,
    SCHEMA,
    SMALLEST,
    TARGETS,
    make_batch,
    outputs_of_graphs,
    tiny_model,
)


@pytest.fixture(
    params=[*(pytest.param((arch, {}), id=arch) for arch in ARCHITECTURES), *NODES_ONLY]
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
    out = model(make_batch(model, range(6)))
    assert out.shape == (6, 2) and out.dtype == torch.float32
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
    outputs_of_graphs(model.double().eval())


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


def test_several_targets_of_classes_are_refused():
    classes = TargetSchema(["a", "b"], kind="multiclass", num_classes=3)
    with pytest.raises(ValueError, match=r"2 targets of classes \(a, b\).*argmax"):
        build_model("grpe_small", SCHEMA, classes)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown architecture 'gpre_small'"):
        build_model("gpre_small", SCHEMA, TARGETS)
    with pytest.raises(ValueError, match="has no option 'layers'"):
        build_model("grpe_small", SCHEMA, TARGETS, layers=3)
