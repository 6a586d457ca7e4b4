"""GPS and Exphormer: the numbers of the released code, and exact small answers."""

import json
from functools import partial

import pytest
import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.modules import (
    BiasedAttention,
    Edges,
    GPSLayer,
    LayerSettings,
    MaskedBatchNorm,
    NodeLayout,
)
from graphormer_plugin.modules.encoders.message_passing import MessagePassingLayer
from graphormer_plugin.modules.encodings.attn_bias import FORBIDDEN
from support.golden import golden_of, golden_state, load_golden

# Names of the released classes and ours.
NAMES = {
    "local_model.nn.": "local.convolution.conv.nn.",
    "local_model.eps": "local.convolution.conv.eps",
    "local_model.A.": "local.convolution.own.",
    "local_model.B.": "local.convolution.neighbour.",
    "local_model.C.": "local.convolution.edge.",
    "local_model.D.": "local.convolution.target.",
    "local_model.E.": "local.convolution.source.",
    "local_model.bn_node_x.": "local.norm.",
    "local_model.bn_edge_e.": "local.convolution.norm.",
    "self_attn.in_proj_": "attention.qkv_proj.",
    "self_attn.out_proj.": "attention.out_proj.",
    "norm1_local.": "local_norm.",
    "norm1_attn.": "attention_norm.",
    "ff_linear1.": "fc1.",
    "ff_linear2.": "fc2.",
    "norm2.": "ffn_norm.",
    # the place of the second map behind an absent norm
    "conv.nn.2.": "conv.nn.3.",
}
EXPHORMER = {"models.0.": "", "models.1.": "", "self_attn.E": "attention.scores.edge"}


def renamed(name):
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name


def make_layer(conv, dim=16, num_heads=4):
    gated = conv == "gatedgcn"
    settings = LayerSettings(dim, norm="batch" if gated else "none", edge_vectors=True)
    options = {} if gated else {"hidden_dim": dim, "learned_share": False}
    return GPSLayer(
        MessagePassingLayer(conv, settings, linear=not gated, **options),
        BiasedAttention(dim, num_heads),
        dim,
        ffn_dim=2 * dim,
        activation="relu",
        norm=MaskedBatchNorm,
    )


def layout_of(graph):
    sizes = graph.bincount()
    mask = torch.arange(int(sizes.max())) < sizes.unsqueeze(1)
    bias = torch.zeros(mask.shape[0], 4, mask.shape[1], mask.shape[1])
    bias = bias.masked_fill(~mask[:, None, None], FORBIDDEN).double()
    return NodeLayout(mask, graph), bias


@pytest.fixture(params=["gine", "gatedgcn"])
def released(request):
    """Arrays of the released code, and our layers with its weights."""
    arrays = load_golden(f"gps_{request.param}")
    layers = torch.nn.ModuleList(make_layer(request.param) for _ in range(2)).double()
    state = {
        renamed(name): value
        for name, value in golden_state(arrays).items()
        if not name.endswith("num_batches_tracked")
    }
    layers.load_state_dict(state)
    tensors = {
        name: torch.from_numpy(value)
        for name, value in arrays.items()
        if value.dtype.kind in "fi"
    }
    return layers, tensors


def run(layers, arrays):
    """Nodes after the layers, the vectors of edges, and the input of the nodes."""
    layout, bias = layout_of(arrays["batch"])
    first = x = arrays["x"].double().requires_grad_()
    state = arrays["edge_attr"].double()
    edges = Edges(arrays["edge_index"], arrays["batch"], state=state)
    for layer in layers:
        x, edges = layer(x, edges, layout, bias)
    return x, edges.state, first


def test_agrees_with_the_released_code(released):
    layers, arrays = released
    nodes, edges, first = run(layers.eval(), arrays)
    assert (nodes - arrays["output"]).abs().max() < 1e-10
    assert (edges - arrays["output_edges"]).abs().max() < 1e-10
    (nodes * arrays["weight"]).sum().backward()
    assert (first.grad - arrays["grad_x"]).abs().max() < 1e-10
    gradients = golden_state(arrays, "grad/")
    gradients = {renamed(name): value for name, value in gradients.items()}
    found = {
        name: weight.grad
        for name, weight in layers.named_parameters()
        if weight.grad is not None
    }
    assert found.keys() == gradients.keys()
    size = max(gradient.abs().max() for gradient in gradients.values())
    for name, gradient in gradients.items():  # sums of products of that size
        assert (found[name] - gradient).abs().max() < 1e-12 * size, name


def test_agrees_with_the_released_code_in_training(released):
    layers, arrays = released
    nodes, _, _ = run(layers.train(), arrays)
    assert (nodes - arrays["output_training"]).abs().max() < 1e-10


def exphormer_weights(arrays, has_expander):
    """Names of the released classes -> ours. Maps of queries, keys and values are one."""
    weights = {}
    for name, value in arrays.items():
        for theirs, ours in EXPHORMER.items():
            name = name.replace(theirs, ours)
        name = renamed(name)  # nothing reads the edges of the last layer
        if "num_batches" not in name and "2.local.convolution.norm" not in name:
            weights[name] = value.double()
    kinds = ("exp_edge_attr", "virt_node_emb", "virt_edge_in_emb", "virt_edge_out_emb")
    none = torch.zeros(0, 24).double()
    kinds = [weights.pop(f"exp_edge_fixer.{kind}.weight", none) for kind in kinds]
    expander, weights["virtual"], into, out = kinds
    rows = [expander[: int(has_expander)], torch.stack([into, out], 1).flatten(0, 1)]
    weights["edge_kinds"] = torch.cat(rows)
    for layer in [name[:9] for name in weights if name.endswith("self_attn.Q.weight")]:
        maps = [weights.pop(f"{layer}self_attn.{kind}.weight") for kind in "QKV"]
        weights[f"{layer}attention.scores.qkv_proj.weight"] = torch.cat(maps)
    return weights


@pytest.mark.parametrize("name", ["cifar10", "peptides_func", "peptides_struct", "voc"])
def test_exphormer_agrees_with_the_released_code(name, request):
    """Nodes, virtual nodes and edges after every layer, gradients, and in training."""
    golden = golden_of(request, f"exphormer_{name}")
    arrays = {n: torch.from_numpy(a) for n, a in golden.items() if a.dtype.kind in "fi"}
    config = json.loads(str(golden["config"]))
    encoder = build_model(
        "exphormer_peptides_func",
        FeatureSchema(24, None, [], num_edge_features=24),
        TargetSchema.of(["y"]),
        **{"encoder_layers": 3, "encoder_embed_dim": 24, "dropout": 0.0},
        **{"act_dropout": 0.0, "node_encodings": "none", "node_encoding_dim": 0},
        edge_sets="random_expander:5" * config["expander"],
        virtual_nodes=config["num_virt_node"],
    ).encoder.double()
    state = exphormer_weights(golden_state(golden), config["expander"])
    for part in ("node_encoder", "bonds"):  # the file has vectors of nodes and edges
        state[f"{part}.projection.weight"] = torch.eye(24)
        state[f"{part}.projection.bias"] = torch.zeros(24)
    encoder.load_state_dict(state)
    layout, _ = layout_of(arrays["batch"])
    x = arrays["x"].double().requires_grad_()
    batch = {n: arrays[n] for n in ("edge_index", "edge_attr")}
    batch |= {"x": layout.pad(x), "node_graph": arrays["batch"]}
    batch["node_mask"] = torch.arange(layout.max_nodes) < layout.sizes[:, None]
    further = arrays["attention_edge_index"][:, len(arrays["edge_attr"]) :]
    batch["random_expander_5_index"] = further.long()
    layers = []
    for layer in encoder.eval().layers:
        layer.register_forward_hook(lambda _, inputs, out: layers.append(out))
    nodes = layout.flatten(encoder(batch))
    same = partial(torch.testing.assert_close, rtol=0, atol=1e-10)
    for number, (after, edges) in enumerate(layers, 1):
        same(after, arrays[f"x_after_layer_{number}"])
        if config["num_virt_node"]:
            same(edges.virtual, arrays[f"virtual_after_layer_{number}"])
    (nodes * arrays["weight"]).sum().backward()
    same(x.grad, arrays["grad_x"])
    given = {n[5:]: a for n, a in arrays.items() if n.startswith("grad/")}
    found = dict(encoder.named_parameters())
    for key, gradient in exphormer_weights(given, config["expander"]).items():
        scale = gradient.abs().sum().clamp(min=1)  # kept as float32
        same(found[key].grad / scale, gradient / scale, atol=1e-6, msg=key)
    same(layout.flatten(encoder.train()(batch)), arrays["output_training"])
