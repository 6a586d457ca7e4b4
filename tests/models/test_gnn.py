"""Baselines: their sizes, options, and what the trainer does. Their formulas are in
tests/modules/encoders/test_message_passing.py."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model, weight_layers
from graphormer_plugin.models.gnn import PNAConfig, PNAModel
from graphormer_plugin.modules.encoders.message_passing import LayersHead
from graphormer_plugin.modules.layers.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.message_passing.convolutions import Edges
from support.architectures import (
    GRAPHS,
    OGB,
    SCHEMA,
    TARGETS,
    TINY,
    make_batch,
    tiny_model,
)

ROWS = np.arange(6)  # one of them a single node


@torch.no_grad()
def test_eigenvectors_are_projected_into_the_nodes():
    torch.manual_seed(0)
    model = tiny_model("gcn", node_encodings="laplacian:3").double().eval()
    batch = make_batch(model, ROWS)
    out = model(batch)
    (term,) = model.encoder.node_encoder.encodings
    del model.encoder.node_encoder.encodings[0]
    linear = term.projection
    vectors = batch["lap_pe"][..., :3].double() @ linear.weight.T + linear.bias
    assert (model(batch, vectors) - out).abs().max() < 1e-12
    assert (model(batch) - out).abs().max() > 1e-6


def test_pna_of_molhiv():
    """The sum over the released code's modules; Table 3 of Ying et al. 2021: 326K."""
    model = build_model("pna_molhiv", OGB, GRAPHS)
    layer = (12 * 80 + 1) * 80 + 2 * 80
    head = 81 * 40 + 41 * 20 + 21
    assert count(model) == 174 * 80 + 4 * layer + head == 326_161
    assert model.readout == "mean" and len(model.encoder.layers) == 4
    assert model.encoder.node_encoder.embedding.weight.abs().max() < 0.3  # Xavier


def test_simple_pna_drops_from_the_sum():
    """h' = dropout(h + ReLU(norm(conv(h))))."""
    torch.manual_seed(0)
    model = tiny_model("pna_simple", dropout=0.5).train()
    layer = model.encoder.layers[0]
    x = torch.rand(50, model.encoder.embed_dim) + 1
    edges = Edges(torch.tensor([[0, 1], [1, 0]]), torch.zeros(50, dtype=torch.long))
    out, *_ = layer(x, None, edges)
    added = layer.norm(layer.convolution(x, edges)[0]).relu()
    kept = out != 0
    assert 0.4 < kept.float().mean() < 0.6
    assert torch.allclose(out[kept], 2 * (x + added)[kept])


def test_gin_reads_out_all_layers():
    """The sum of 17 heads, each on the pooled output of a layer or the input."""
    torch.manual_seed(0)
    model = tiny_model("gin").double().eval()
    assert isinstance(model.head, LayersHead)
    batch = make_batch(model, ROWS)
    outputs = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda *a: outputs.append((a[1][0], a[2][0])))
    out = model(batch)
    nodes = [outputs[0][0], *(after for _, after in outputs)]
    weights = model.head.projection.weight.split(16, 1)
    wanted = model.head.projection.bias.repeat(len(ROWS), 1)
    for x, weight in zip(nodes, weights, strict=True):
        pooled = torch.zeros(6, 16).double().index_add(0, batch["node_graph"], x)
        wanted = wanted + pooled @ weight.T
    assert (out - wanted).abs().max() < 1e-10


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("scale", [{}, {"mean": [0.05, -1.0], "std": [0.1, 2.0]}])
@torch.no_grad()
def test_predictions_are_clamped_in_evaluation_and_in_the_unit(scale):
    torch.manual_seed(0)
    targets = TargetSchema.of(["y", "z"], **scale)
    plain, model = (
        tiny_model("gin", targets, clamp_max=largest).double() for largest in (0, 0.1)
    )
    model.load_state_dict(plain.state_dict())
    batch = make_batch(model, ROWS)
    restored = targets.restore(plain.eval()(batch))
    assert restored.min() < 0 and restored.max() > 0.1
    clamped = targets.restore(model.eval()(batch))
    assert (clamped - restored.clamp(0, 0.1)).abs().max() < 1e-12
    assert model.train()(batch).equal(plain.train()(batch))


def test_frozen_layers_keep_their_statistics():
    model = tiny_model(
        "gin", virtual_node=True, encoder_layers=3, freeze_encoder_layers=1
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(make_batch(model, ROWS)).sum().backward()
    norms = {
        f"{name}.running_mean"
        for name, module in model.named_modules()
        if isinstance(module, MaskedBatchNorm)
    }
    moved = {name for name in norms if not model.state_dict()[name].equal(before[name])}
    assert moved == {name for name in norms if "layers.0." not in name} != norms
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {n for n, layer in weight_layers(model).items() if layer < 2}
    assert "encoder.virtual_node.weight" in frozen
    assert "encoder.layers.0.virtual_update.0.weight" in frozen


def test_pna_takes_its_degrees_from_the_task_or_the_weights():
    sizes = {name: TINY[name] for name in ("encoder_layers", "encoder_embed_dim")}
    cfg = PNAConfig(towers=4, **sizes)
    task = SimpleNamespace(schema=SCHEMA, targets=TARGETS, mean_log_degree=lambda: 0.7)
    model = PNAModel.build_model(cfg, task)
    other = tiny_model("pna")
    delta = [m.encoder.layers[1].convolution.mean_log_degree for m in (model, other)]
    assert [value.item() for value in delta] == pytest.approx([0.7, 1])
    other.load_state_dict(model.state_dict())
    assert delta[1].item() == pytest.approx(0.7)


def test_the_tuned_gcn_of_peptides():
    """Within the benchmark's 500,000 weights; GELU, a wide head, no norm (toenshoff/LRGB)."""
    targets = TargetSchema.of([str(number) for number in range(10)], kind="binary")
    model = build_model("gcn_peptides", OGB, targets)
    assert count(model) == 482_686
    layer = model.encoder.layers[0]
    assert layer.activation is torch.nn.functional.gelu
    assert isinstance(layer.norm, torch.nn.Identity) and layer.dropout.p == 0.1
    widths = [m.out_features for m in model.head.hidden if hasattr(m, "out_features")]
    assert widths == [235, 235] and len(model.head.hidden) == 6
