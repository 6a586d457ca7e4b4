"""Graphormer-3D: the numbers of the released code, and symmetries."""

import json
from types import SimpleNamespace

import pytest
import torch

from graphormer_plugin.criterions.mae_deltapos import (
    DISPLACEMENT_MEAN,
    DISPLACEMENT_STD,
    ENERGY_MEAN,
    ENERGY_STD,
    MaeDeltapos,
)
from graphormer_plugin.data.graphs.periodic import NODE_DIMS
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import ARCHITECTURES, build_model
from support.architectures import num_weights, tiny_model
from support.golden import load_golden

SCHEMA = FeatureSchema(3, NODE_DIMS)
TARGETS = TargetSchema.of(
    ["energy"], "eV", mean=[ENERGY_MEAN], std=[ENERGY_STD], node_vector="displacement"
)
# Names of the released class and ours; several of its weights are one of ours.
NAMES = {
    "encoder.node_encoder.embedding.weight": "atom_encoder.weight tag_encoder.weight",
    "encoder.kernels.kernels.centre": "gbf.means.weight",
    "encoder.kernels.kernels.width": "gbf.stds.weight",
    "encoder.kernels.factor": "gbf.mul.weight",
    "encoder.kernels.shift": "gbf.bias.weight",
    "encoder.bias.hidden.0": "bias_proj.layer1",
    "encoder.bias.projection": "bias_proj.layer2",
    "encoder.neighbours": "edge_proj",
    "encoder.final_norm": "final_ln",
    "head.hidden.0": "engergy_proj.layer1",
    "head.projection": "engergy_proj.layer2",
    "head.factor.weight": "energe_agg_factor.weight",
    "vector_head.qkv_proj": "node_proc.q_proj node_proc.k_proj node_proc.v_proj",
    "vector_head.out_proj": "node_proc.force_proj1 node_proc.force_proj2 node_proc.force_proj3",
    "encoder.layers": "layers",
}
LAYER = {
    "attention.qkv_proj": "self_attn.in_proj",
    "attention.out_proj": "self_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "ffn_norm": "final_layer_norm",
}


def theirs(name):
    """Names of the released weights that are one of ours."""
    for ours, released in LAYER.items():
        name = name.replace(ours, released)
    for ours, released in NAMES.items():
        if name.startswith(ours):
            return [word + name[len(ours) :] for word in released.split()]
    raise KeyError(name)


def joined(arrays, kind, name, shape):
    parts = [torch.from_numpy(arrays[f"{kind}/{one}"]).double() for one in theirs(name)]
    return torch.cat(parts).view(shape)


@pytest.fixture(scope="module")
def arrays():
    return load_golden("graphormer3d")


@pytest.fixture
def model(arrays):
    config = json.loads(str(arrays["config"]))
    model = build_model(
        "graphormer3d_base",
        SCHEMA,
        TARGETS,
        blocks=config["blocks"],
        encoder_layers=config["layers"],
        encoder_embed_dim=config["embed_dim"],
        encoder_ffn_embed_dim=config["ffn_embed_dim"],
        encoder_attention_heads=config["attention_heads"],
        gaussian_kernels=config["num_kernel"],
    )
    model.double().eval()
    state = {
        name: joined(arrays, "state", name, weight.shape)
        for name, weight in model.named_parameters()
    }
    model.load_state_dict(state)
    return model


def sample_of(arrays):
    tensors = {
        name.partition("/")[2]: torch.from_numpy(value)
        for name, value in arrays.items()
        if name.startswith(("batch/", "target/"))
    }
    image = ~tensors["real_mask"] & (tensors["atoms"] > 0)
    columns = [tensors["atoms"], tensors["tags"], image.long()]
    batch = {
        "x": torch.stack(columns, -1),
        "node_mask": tensors["atoms"] > 0,
        "pos": tensors["pos"].double(),
    }
    return {
        "id": torch.arange(len(image)),
        "nsamples": len(image),
        "ntokens": int((tensors["atoms"] > 0).sum()),
        "net_input": {"batch": batch},
        "target": tensors["relaxed_energy"].double().unsqueeze(1),
        "displacement": tensors["deltapos"].double().clone(),
    }


def test_outputs_losses_and_gradients_of_the_released_code(arrays, model):
    sample = sample_of(arrays)
    batch = sample["net_input"]["batch"]
    energies, vectors = model(batch)
    assert (energies[:, 0] - torch.from_numpy(arrays["energy"])).abs().max() < 1e-10
    difference = vectors - torch.from_numpy(arrays["node_output"])
    assert difference[batch["node_mask"]].abs().max() < 1e-10
    criterion = MaeDeltapos(SimpleNamespace(targets=TARGETS), max_update=100)
    criterion.update = 30
    assert criterion.displacement_weight() == pytest.approx(10.8, abs=1e-12)
    loss, size, log = criterion.train()(model, sample)
    assert abs(loss.item() - arrays["loss"]) < 1e-10
    assert abs(log["loss"].item() - arrays["energy_loss"]) < 1e-10
    node_loss = (loss - log["loss"]) / 10.8
    assert abs(node_loss.item() - arrays["node_loss"]) < 1e-10
    assert size == 5 and log["within"] == arrays["within_threshold"]
    loss.backward()
    for name, weight in model.named_parameters():
        expected = joined(arrays, "grad", name, weight.shape)
        assert (weight.grad - expected).abs().max() < 1e-10, name


def test_rotation_changes_the_vectors_but_not_the_energies(arrays, model):
    batch = sample_of(arrays)["net_input"]["batch"]
    rotation = torch.from_numpy(arrays["rotation"]).double()
    turned = {**batch, "pos": batch["pos"] @ rotation}
    energies, vectors = model(batch)
    turned_energies, turned_vectors = model(turned)
    expected = torch.from_numpy(arrays["energy_rotated"])
    assert (turned_energies[:, 0] - expected).abs().max() < 1e-10
    assert (turned_energies - energies).abs().max() < 1e-10
    moved = {**batch, "pos": batch["pos"] + 5}
    assert (model(moved)[1] - vectors)[batch["node_mask"]].abs().max() < 1e-10
    error = (turned_vectors - vectors @ rotation)[batch["node_mask"]].norm()
    assert error > 0.5 * vectors[batch["node_mask"]].norm()


def test_weights_as_in_the_released_code():
    assert num_weights("graphormer3d_base", SCHEMA, TARGETS) == 45_108_151


def test_images_have_no_energy_of_their_own(arrays, model):
    """The energy of an atom changes the sum only with a tag above 0, and not as an image."""
    batch = sample_of(arrays)["net_input"]["batch"]
    hooked = []
    model.head.register_forward_hook(lambda *call: hooked.append(call[2]))
    energies, _ = model(batch)
    tags = batch["x"][..., 1]
    real = batch["node_mask"] & (batch["x"][..., 2] == 0)
    expected = (hooked[0][..., 0] * (real & (tags > 0))).sum(1)
    assert (energies[:, 0] - expected).abs().max() < 1e-12
    assert (tags[~real & batch["node_mask"]] > 0).any()


@pytest.mark.parametrize("cutoff", [4.0, 0.0])
@torch.no_grad()
def test_energies_add_beyond_the_cutoff(cutoff):
    """Atoms within the cutoff share an energy, others have that of each part."""
    torch.manual_seed(0)
    model = tiny_model("graphormer3d_small", attention_cutoff=cutoff).double().eval()
    rows = model.encoder.node_encoder.table_rows

    def energy(*numbers, at):
        pos = torch.tensor([[[place, 0, 0] for place in at]], dtype=torch.float64)
        x = torch.tensor([[[number % one for one in rows] for number in numbers]])
        mask = torch.ones(1, len(numbers), dtype=torch.bool)
        return model({"x": x, "node_mask": mask, "pos": pos})[0, 0].item()

    near = energy(1, 2, at=[0, 1.5])
    lone = energy(3, at=[0])
    interaction = abs(energy(1, 2, 3, at=[0, 1.5, 3]) - near - lone)
    far = abs(energy(1, 2, 3, at=[0, 1.5, 5.6]) - near - lone)
    assert (far < 1e-5 * interaction) == bool(cutoff), (far, interaction)


def test_sizes_of_nabladft():
    options = ARCHITECTURES["graphormer3d_small"].options()
    names = "encoder_layers blocks encoder_embed_dim encoder_attention_heads".split()
    assert [options[name] for name in names] == [6, 4, 512, 32]
    assert options["gaussian_kernels"] == 128


def test_atoms_without_displacement_have_no_loss(arrays, model):
    sample = sample_of(arrays)
    criterion = MaeDeltapos(SimpleNamespace(targets=TARGETS)).train()
    loss, _, log = criterion(model, sample)
    known = torch.ones(5, dtype=torch.bool)
    known[0] = False
    sample["displacement"][~known] = torch.nan
    partial, _, partial_log = criterion(model, sample)
    partial.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    assert partial < loss and partial_log["loss"] == log["loss"]
    assert log["displaced"] == 5 and partial_log["displaced"] == 4
    sample["displacement"][:] = torch.nan
    energies_only, _, log = criterion(model, sample)
    assert energies_only == log["loss"]


def test_mean_displacement_in_angstrom(arrays, model):
    """Against the released mean per graph of errors in standard deviations."""
    sample = sample_of(arrays)
    criterion = MaeDeltapos(SimpleNamespace(targets=TARGETS)).eval()
    _, vectors = model(sample["net_input"]["batch"])
    value = vectors * torch.tensor(DISPLACEMENT_STD) + torch.tensor(DISPLACEMENT_MEAN)
    total = 0
    masks = torch.from_numpy(arrays["node_target_mask"])[..., 0]
    for predicted, wanted, mask in zip(value, sample["displacement"], masks):
        total += (predicted - wanted)[mask].abs().mean()
    _, _, log = criterion(model, sample)
    assert log["displacement_error"].item() == pytest.approx(total.item(), abs=1e-6)
