"""Edges of batches by bonds and by distance, and their lengths."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch

from graphormer_plugin.models import model_config
from graphormer_plugin.modules import (
    EdgeInput,
    GPSEncoder,
    GraphTransformerEncoder,
    MessagePassingEncoder,
)
from graphormer_plugin.modules.encodings.bond_encoder import LengthEncoder
from support.architectures import (
    SCHEMA,
    check_distances_alone,
    exact_batch,
    make_batch,
    make_columns,
    tiny_model,
)

READERS = ["gt_zinc", "gps_zinc", "gine", "gat", "gatedgcn", "pna", "mpnn"]
LENGTHS = [{"length_kernels": 5}, {"length_kernels": 5, "radius": 1.9}]


class NoEdges(EdgeInput):
    """An edge input of a user."""

    def forward(self, batch, bonds):
        fields = {name: batch[name][..., :0] for name in ("edge_index", "edge_bond")}
        return super().forward(batch | fields, bonds)


@pytest.mark.parametrize(
    "arch, make",
    [
        ("gt_zinc", GraphTransformerEncoder),
        ("gps_zinc", GPSEncoder),
        ("gatedgcn", partial(MessagePassingEncoder, "gatedgcn")),
    ],
)
@torch.no_grad()
def test_an_encoder_takes_its_edge_input(arch, make):
    options = {"node_encodings": "none", "encoder_embed_dim": 64, "encoder_layers": 2}
    config = model_config(arch, **options)
    config.node_encoding_dim = 0
    plain = make(SCHEMA, config).eval()
    given = make(SCHEMA, config, edge_input=NoEdges("state", SCHEMA, config)).eval()
    given.load_state_dict(plain.state_dict())
    batch = make_batch(tiny_model("gatedgcn"), range(6))
    empty = batch | {n: batch[n][..., :0] for n in ("edge_index", "edge_bond")}
    assert torch.equal(given(batch), plain(empty))
    assert not torch.equal(plain(batch), plain(empty))


def make_model(arch, options):
    torch.manual_seed(0)
    if arch == "gat":
        options = options | {"edge_features": True}
    if arch in ("gt_zinc", "gps_zinc"):  # eigenvectors and walks are of bonds
        options = options | {"node_encodings": "none"}
    model = tiny_model(arch, **options).double().eval()
    for module in model.modules():  # outputs that depend on them by more than rounding
        if isinstance(module, LengthEncoder):
            torch.nn.init.normal_(module.projection.weight, std=3.0)
    for name, weight in model.named_parameters():
        if arch in ("pna", "mpnn") and name.endswith("weight"):
            weight.data.mul_(3)
    return model


@pytest.mark.parametrize("options", LENGTHS, ids=["bonds", "radius"])
@pytest.mark.parametrize("arch", READERS)
def test_outputs_depend_on_lengths_alone(arch, options):
    check_distances_alone(make_model(arch, options), 0.05)


@pytest.mark.parametrize("radius", [0.0, 1.5])
@torch.no_grad()
def test_edges_and_their_vectors_one_by_one(radius):
    """Every edge has the vector of its bond, if it has one, plus the map of its kernels."""
    options = {"length_kernels": 4, "radius": radius}
    model = make_model("gatedgcn", options)
    encoder = model.encoder
    columns = make_columns()
    batch = exact_batch(model, range(6))
    edges = encoder.edge_input(batch, encoder.bonds)
    expected = {}
    bond = {}
    for graph in range(6):
        first, end = columns["node_offset"][graph : graph + 2]
        for edge in range(*columns["edge_offset"][graph : graph + 2]):
            ends = columns["edge_src"][edge], columns["edge_dst"][edge]
            bond[tuple(first + np.array(ends, int))] = int(columns["edge_bond"][edge])
        for i, j in itertools.permutations(range(first, end), 2):
            step = np.subtract(*columns["pos"][[i, j]].astype(np.float64))
            length = np.sqrt((step**2).sum())
            if length < radius if radius else (i, j) in bond:
                kernels = encoder.edge_input.kernels(torch.tensor(length))
                vector = encoder.bonds.bonds()[bond.get((i, j), 0)]
                vector = vector + encoder.bonds.projection(kernels)
                expected[i, j] = vector
    found = list(map(tuple, edges.index.T.tolist()))
    assert sorted(found) == sorted(expected) and len(expected) > 20
    assert (0 < sum(pair not in bond for pair in expected)) == bool(radius)
    for pair, vector in zip(found, edges.state, strict=True):
        torch.testing.assert_close(vector, expected[pair], rtol=0, atol=1e-10)


@torch.no_grad()
def test_a_radius_without_lengths():
    """A convolution without vectors of edges has the near atoms as neighbours."""
    model = make_model("gcn", {"radius": 1.5})
    assert {"pos"} <= model.batch_spec.fields and "bond" not in model.batch_spec.fields
    batch = exact_batch(model, range(6))
    wide = model.encoder.edge_input(batch, None).index.shape[1]
    model.encoder.edge_input.radius = 1.1
    narrow = model.encoder.edge_input(batch, None).index.shape[1]
    assert 0 < narrow < wide


@pytest.mark.parametrize("options", LENGTHS)
def test_half_precision_keeps_digits_of_positions(options):
    inputs = make_model("gine", options).half().encoder.edge_input
    pos = torch.tensor([[[1000.1, 0, 0], [1000.2, 0, 0]]])
    assert torch.equal(inputs.positions({"pos": pos}), pos)


def test_forces_from_lengths():
    """The gradient is that of differences, and a loss on it has one."""
    for arch, options in zip(("gt_zinc", "gine"), LENGTHS):
        model = make_model(arch, options)
        batch = exact_batch(model, [0, 2])
        pos = batch["pos"].requires_grad_()
        (gradient,) = torch.autograd.grad(model(batch).sum(), pos, create_graph=True)
        gradient.square().sum().backward()
        assert any(w.grad is not None and w.grad.any() for w in model.parameters())
        step = torch.zeros_like(pos)
        step[1, 2, 0] = 1e-5
        with torch.no_grad():
            ends = [model(batch | {"pos": pos + s}).sum() for s in (step, -step)]
        difference = (ends[0] - ends[1]) / 2e-5
        torch.testing.assert_close(difference, gradient[1, 2, 0], rtol=1e-5, atol=1e-9)


def test_edges_of_near_atoms_are_not_exported():
    model = make_model("gcn", {"radius": 1.5}).eval()
    with pytest.raises(ValueError, match="nothing is exported"):
        torch.export.export(model, (exact_batch(model, range(6)),))
