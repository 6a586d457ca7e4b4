"""GPS's presets and options."""

import pytest
import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.models.gps import GPSConfig, GPSModel
from graphormer_plugin.modules.encoders.message_passing import CONVOLUTIONS
from support.architectures import (
    GRAPHS,
    OGB,
    SCHEMA,
    ZINC,
    make_batch,
    num_weights,
    tiny_model,
)

TEN = TargetSchema.of([f"class {number}" for number in range(10)])


def released_layer(d, local):
    """Weights of a layer of the released classes, by the shapes of tests/golden."""
    local = {"gine": 2 * (d * d + d), "gatedgcn": 5 * (d * d + d) + 4 * d}[local]
    return local + 4 * (d * d + d) + 3 * 2 * d + (2 * d * d + 2 * d) + (2 * d * d + d)


def head(d, outputs):
    return d * (d // 2) + d // 2 + d // 2 * (d // 4) + d // 4 + (d // 4 + 1) * outputs


@pytest.mark.parametrize(
    "arch, schema, targets, expected",
    [
        (
            "gps_zinc",
            ZINC,
            GRAPHS,
            # layers, atoms, walks of 20 steps with BatchNorm, bonds, head
            10 * released_layer(64, "gine")
            + 28 * 36
            + (2 * 20 + 20 * 28 + 28)
            + 4 * 64
            + head(64, 1),
        ),
        (
            "gps_peptides",
            OGB,
            TEN,
            4 * released_layer(96, "gatedgcn")
            - 2 * 96  # the edges of the last layer
            + 174 * 80
            + (10 * 16 + 16)
            + 13 * 96
            + head(96, 10),
        ),
        (
            "gps_medium",
            OGB,
            GRAPHS,
            10 * released_layer(384, "gatedgcn")
            - 2 * 384
            + 174 * 364
            + (2 * 16 + 16 * 20 + 20)
            + 13 * 384
            + head(384, 1),
        ),
    ],
)
def test_numbers_of_weights(arch, schema, targets, expected):
    assert num_weights(arch, schema, targets) == expected


def test_published_number_of_weights():
    """GPS-medium has 19.4M."""
    assert round(num_weights("gps_medium", OGB, GRAPHS) / 1e5) == 194


def test_presets():
    for arch, layers, width, heads, local, readout in (
        ("gps_zinc", 10, 64, 4, "gine", "sum"),
        ("gps_peptides", 4, 96, 4, "gatedgcn", "mean"),
        ("gps_medium", 10, 384, 16, "gatedgcn", "mean"),
    ):
        model = build_model(arch, ZINC, GRAPHS)
        assert len(model.encoder.layers) == layers
        assert model.embed_dim == width
        assert model.encoder.layers[0].attention.num_heads == heads
        assert model.readout == readout
        gated = hasattr(model.encoder.layers[0].local.convolution, "neighbour")
        assert gated == (local == "gatedgcn")


def test_the_published_attention_dropout_of_zinc():
    model = build_model("gps_zinc", ZINC, GRAPHS)
    layer = model.encoder.layers[0]
    assert (layer.attention.dropout.p, layer.dropout.p) == (0.5, 0.0)


@pytest.mark.parametrize(
    "options, fields",
    [
        ({"node_encodings": "none"}, set()),
        ({}, {"bond"}),
        ({"node_encodings": "laplacian"}, {"lap_pe"}),
        ({"node_encodings": "none", "attention": "bias"}, {"dist", "path_bond"}),
        (
            {"node_encodings": "none", "attention": "relations"},
            {"relation_index", "relations"},
        ),
        ({"node_encodings": "none", "pair_encodings": "gaussians"}, {"pos"}),
        ({"node_encodings": "none", "pair_encodings": "random_walks"}, {"bond"}),
    ],
)
def test_fields(options, fields):
    model = tiny_model("gps_zinc", **options)
    common = {"x", "node_mask", "node_graph", "edge_index", "edge_bond"}
    assert model.batch_spec.fields == common | fields


@torch.no_grad()
def test_sizes_of_what_other_options_bring():
    model = tiny_model("gps_zinc", attention="bias", multi_hop_max_dist=3)
    assert model.batch_spec.path_length == 3
    assert model(make_batch(model, range(6))).isfinite().all()
    model = tiny_model("gps_zinc", attention="relations", max_hop=3)
    assert model.batch_spec.max_hop == 3
    assert model(make_batch(model, range(6))).isfinite().all()
    model = tiny_model("gps_zinc", node_encodings="laplacian:7")
    assert model.batch_spec.lap_pe_dim == 7
    model = tiny_model("gps_zinc", local_part="pna", towers=8)
    assert model.encoder.layers[0].local.convolution.num_towers == 8


@pytest.mark.parametrize("attention", ["plain", "bias", "relations"])
@torch.no_grad()
def test_gaussians_and_further_encodings_act_with_every_attention(attention):
    for further in ("gaussians", "random_walks"):
        torch.manual_seed(0)
        model = tiny_model("gps_zinc", attention=attention, pair_encodings=further)
        model.eval()
        batch = make_batch(model, range(6))
        before = model(batch)
        (term,) = model.encoder.attn_bias.further
        torch.nn.init.normal_(term.projection.weight, std=3.0)
        assert (model(batch) - before).abs().max() > 1e-6


@pytest.mark.parametrize("conv", sorted(CONVOLUTIONS))
def test_every_local_part_without_bonds(conv):
    """Where edges have none, every local part is accepted; vectors of bonds are one."""
    schema = FeatureSchema(1, [7], [])
    model = build_model("gps_zinc", schema, GRAPHS, encoder_layers=1, local_part=conv)
    assert len(model.encoder.layers) == 1


def test_pna_scales_by_the_degrees_of_the_training_graphs():
    class Task:
        schema, targets = SCHEMA, GRAPHS
        mean_log_degree = staticmethod(lambda: 0.75)

    cfg = GPSConfig(encoder_layers=2, local_part="pna")
    model = GPSModel.build_model(cfg, Task())
    for layer in model.encoder.layers:
        assert layer.local.convolution.mean_log_degree == 0.75
