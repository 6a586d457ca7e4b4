"""Forces as slopes of the energy, in every architecture that reads distances, and their loss."""

from types import SimpleNamespace

import pytest
import torch
from scipy.spatial.transform import Rotation

from graphormer_plugin.criterions.energy_forces import EnergyForces
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.modules.attention.chromatic import CHUNK
from graphormer_plugin.modules.layers.derivatives import output_and_forces
from graphormer_plugin.tasks.energy_forces import has_kinks
from support.architectures import make_batch, tiny_model
from support.samples import sample_of

FORCES = {"node_vector": "forces", "atom_energies": [*map(float, range(7))]}
ENERGY = TargetSchema.of(["energy"], mean=[0.0], std=[2.0], **FORCES)
STEP = 1e-5


GAUSSIANS = {"pair_encodings": "gaussians", "gaussian_kernels": 8}


@pytest.fixture(
    params=[
        ("graphormer_slim", GAUSSIANS),
        ("grpe_tiny", GAUSSIANS),
        ("cgt_zinc", GAUSSIANS),
        ("gps_zinc", GAUSSIANS),
        ("gt_zinc", {"length_kernels": 8}),
        ("gt_zinc", {"length_kernels": 8, "radius": 2.0}),
        ("gatedgcn", {"length_kernels": 8, "radius": 2.0}),
        ("graphormer3d_small", {}),
    ],
    ids=lambda case: case[0],
)
def model(request):
    torch.manual_seed(0)
    arch, options = request.param
    model = tiny_model(arch, ENERGY, **options).double().eval()
    with torch.no_grad():
        for weight in model.parameters():  # some start at 0
            weight += 0.3 * torch.randn_like(weight)
    return model


def double_batch(model):
    batch = make_batch(model, range(6))
    return {**batch, "pos": batch["pos"].double()}


def criterion(**options):
    return EnergyForces(SimpleNamespace(targets=ENERGY), **options)


def test_forces_are_slopes_of_the_energy(model):
    batch = double_batch(model)
    energy, forces = output_and_forces(model, batch, create_graph=False)
    assert torch.equal(energy, model(batch))
    assert not forces[~batch["node_mask"]].any()
    assert not forces[1].any()  # a single atom
    graphs = torch.arange(len(energy))
    for atom in range(3):
        for axis in range(3):
            values = []
            for sign in (1, -1):
                pos = batch["pos"].clone()
                pos[graphs, atom, axis] += sign * STEP
                values.append(model({**batch, "pos": pos})[:, 0].detach())
            slope = (values[1] - values[0]) / (2 * STEP)
            real = batch["node_mask"][:, atom]
            error = (slope - forces[:, atom, axis])[real].abs().max()
            assert error < 1e-5 * forces.abs().max()
    assert forces.abs().max() > 1e-3


@torch.no_grad()
def test_the_energy_jumps_at_the_radius():
    """No envelope lets an edge fade, as the page says."""
    torch.manual_seed(0)
    options = {"length_kernels": 8, "radius": 2.0}
    model = tiny_model("gt_zinc", ENERGY, **options).double().eval()
    batch = double_batch(model)
    distances = torch.cdist(batch["pos"][0], batch["pos"][0])[batch["node_mask"][0]]
    radius = distances[distances > 0].min()
    energies = []
    for factor in (1 - 1e-9, 1 + 1e-9):
        model.encoder.edge_input.radius = float(radius * factor)
        energies.append(model(batch)[0])
    assert (energies[0] - energies[1]).abs() > 1e-3


def test_forces_turn_with_the_atoms(model):
    batch = double_batch(model)
    energy, forces = output_and_forces(model, batch, create_graph=False)
    rotation = torch.from_numpy(Rotation.random(random_state=0).as_matrix())
    turned = {**batch, "pos": batch["pos"] @ rotation.T + 5}
    turned["pos"][~batch["node_mask"]] = 0
    other_energy, other_forces = output_and_forces(model, turned, create_graph=False)
    assert (energy - other_energy).abs().max() < 1e-6
    error = (forces @ rotation.T - other_forces).abs().max()
    assert error < 1e-6 * forces.abs().max()


def labelled(batch):
    """A sample of a batch; an atom, an energy and all forces of a graph are missing."""
    torch.manual_seed(1)
    forces = torch.randn_like(batch["pos"]).where(batch["node_mask"].unsqueeze(2), 0)
    forces[~batch["node_mask"]] = torch.nan
    forces[0, 0] = torch.nan
    forces[3] = torch.nan
    target = torch.randn(6, 1).double()
    target[2] = torch.nan
    return sample_of(target, batch, forces=forces)


def test_gradient_of_the_loss(model):
    """The second derivative, against differences along a direction."""
    sample = labelled(double_batch(model))
    loss_of = criterion(force_weight=3.0).train()
    weights = [*model.parameters()]
    loss, size, _ = loss_of(model, sample)
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    assert size == 5 and all(gradient is not None for gradient in gradients)
    direction = [torch.randn_like(weight) for weight in weights]
    slope = sum((a * b).sum() for a, b in zip(gradients, direction))
    values = []
    for sign in (1, -2):
        with torch.no_grad():
            for weight, way in zip(weights, direction):
                weight += sign * 1e-7 * way
        values.append(loss_of(model, sample)[0].item())
    scale = sum(gradient.square().sum() for gradient in gradients).sqrt()
    assert abs((values[0] - values[1]) / 2e-7 - slope) < 1e-5 * scale


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_passes_that_are_run_again_change_no_gradient(model, dtype, monkeypatch):
    """Layers, and chunks of CGT's attention, inside the derivative of a derivative."""
    monkeypatch.setitem(CHUNK, "cpu", 200)
    model = model.to(dtype).train()
    batch = double_batch(model)
    sample = labelled({**batch, "pos": batch["pos"].to(dtype)})

    def gradients(checkpointed):
        model.encoder.checkpoint_activations = checkpointed
        torch.manual_seed(0)
        model.zero_grad()
        criterion().train()(model, sample)[0].backward()
        return [weight.grad for weight in model.parameters()]

    expected = gradients(False)
    for one, other in zip(expected, gradients(True), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(
    "arch, options, noise",
    [
        ("cgt_zinc", {}, 0.05),
        ("gps_zinc", {}, 0.3),
        ("gps_zinc", {"local_part": "gatedgcn"}, 0.3),
    ],
)
def test_forces_of_a_smooth_activation_have_no_jumps(arch, options, noise):
    """Four times as many steps along a line are four times as small, but for a jump."""
    torch.manual_seed(0)
    options = {**GAUSSIANS, "activation_fn": "silu", **options}
    model = tiny_model(arch, ENERGY, **options).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += noise * torch.randn_like(weight)
    batch = double_batch(model)
    direction = torch.randn_like(batch["pos"]) * batch["node_mask"].unsqueeze(2)

    def largest_step(count):
        way = torch.linspace(0, 0.3, count + 1)
        moved = [{**batch, "pos": batch["pos"] + s * direction} for s in way]
        forces = [output_and_forces(model, one, False)[1] for one in moved]
        return torch.stack(forces).diff(dim=0).abs().max()

    assert largest_step(400) > 3 * largest_step(1600)


@pytest.mark.parametrize("arch", ["cgt_zinc", "gps_zinc"])
def test_kinks_are_known(arch):
    for activation, bends in (("relu", True), ("silu", False)):
        model = tiny_model(arch, ENERGY, **GAUSSIANS, activation_fn=activation)
        assert has_kinks(model) == bends


class Springs(torch.nn.Module):
    """Energies sum |x|^2 / 2, at the scale of training."""

    def forward(self, batch):
        return batch["pos"].square().sum((1, 2)).view(-1, 1) / 2


def test_numbers():
    """Two graphs of two atoms and one, of elements 1 and 3."""
    batch = {
        "x": torch.tensor([[[1], [3]], [[3], [0]]]),
        "node_mask": torch.tensor([[True, True], [True, False]]),
        "pos": torch.zeros(2, 2, 3).double(),
    }
    batch["pos"][0, 1, 0] = 1.0
    batch["pos"][1, 0, 2] = 2.0
    # predicted: -2 along x, and -4 along z
    forces = torch.tensor([[[0.0, 0, 0], [-1, 0, 0]], [[0, 0, 4], [torch.nan] * 3]])
    # predicted: 2 * 0.5 + 1 + 3 = 5 and 2 * 2 + 3 = 7
    target = torch.tensor([[6.0], [4.0]]).double()
    sample = sample_of(target, batch, forces=forces.double())
    loss_of = criterion(energy_weight=2.0, force_weight=6.0).eval()
    loss_of.keeps_outputs = True
    loss, size, log = loss_of(Springs(), sample)
    energies = (1 + 3) / 2
    forces = (1 / 2 + 8) / 3 / 2  # mean over atoms and axes, by std
    assert loss.item() == pytest.approx(2 * energies + 6 * forces) and size == 2
    assert log["energy_error"].item() == 1 / 2 + 3 and log["energies"].item() == 2
    assert log["force_error"].item() == 1 + 8 and log["components"].item() == 9
    assert log["cosine"].item() == 1 - 1 and log["moved"].item() == 2
    assert log["abs_error"].item() == 1 + 3
    output, target = log["outputs"]
    assert ENERGY.restore(output)[:, 0, 0].tolist() == [5, 7]
    assert target[:, 0, 0].tolist() == [6, 4]
    assert output[0, 1, 1:].tolist() == [-2, 0, 0]
    assert output[1, 0, 1:].tolist() == [0, 0, -4]
    assert target[0, 1, 1:].tolist() == [-1, 0, 0]


def test_wrong_options():
    with pytest.raises(ValueError, match="--force-weight -1"):
        criterion(force_weight=-1)
    with pytest.raises(ValueError, match="learns forces, the task none"):
        EnergyForces(SimpleNamespace(targets=TargetSchema.of(["energy"])))
