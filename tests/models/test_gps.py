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


# Layers and their width, rows of the atoms' and bonds' tables, steps and width of the node
# encoding, and whether it has a BatchNorm. The edges of a last gated layer have no norm.
@pytest.mark.parametrize(
    "arch, schema, targets, layers, d, atoms, bonds, steps, width, norm",
    [
        ("gps_zinc", ZINC, GRAPHS, 10, 64, 28, 4, 20, 28, True),
        ("gps_peptides", OGB, TEN, 4, 96, 174, 13, 10, 16, False),
        ("gps_medium", OGB, GRAPHS, 10, 384, 174, 13, 16, 20, True),
    ],
)
def test_numbers_of_weights(
    arch, schema, targets, layers, d, atoms, bonds, steps, width, norm
):
    local = "gine" if arch == "gps_zinc" else "gatedgcn"
    expected = layers * released_layer(d, local) - 2 * d * (local == "gatedgcn")
    expected += atoms * (d - width) + bonds * d + head(d, len(targets.names))
    expected += 2 * steps * norm + (steps + 1) * width
    assert num_weights(arch, schema, targets) == expected


def test_published_number_of_weights():
    """The layers of Exphormer have 435,200 on Peptides-func."""
    layers = build_model("exphormer_peptides_func", OGB, TEN).encoder.layers
    unread = 2 * 64  # edges of the last layer
    assert sum(weight.numel() for weight in layers.parameters()) + unread == 435_200


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
