"""GT next to a loop over its equations; its released numbers are in cli/test_convert.py."""

import math

import numpy as np
import pytest
import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules import (
    GraphTransformerEncoder,
    GraphTransformerEncoderConfig,
)
from graphormer_plugin.modules.encoders import graph_transformer
from graphormer_plugin.modules.encodings.node_encodings import (
    Degrees,
    LaplacianEncoding,
)
from graphormer_plugin.modules.layers.sparse import NodeLayout
from support.toy_graphs import NODE_DIMS, collate, random_graph, undirected_graph

VARIANTS = {
    "edges": {},
    "edges, layer norm": {"norm": "layer", "node_encodings": "none"},
    "no edges": {"no_edge_features": True},
    "full": {"full_graph": True},
    "full, layer norm": {"full_graph": True, "norm": "layer"},
    "full, no pair features": {"full_graph": True, "no_pair_features": True},
    "degrees": {"node_encodings": "degrees:5:0"},
    "wl": {"node_encodings": "wl:5"},
}


@pytest.fixture(params=["sparse", "dense"])
def form(request, monkeypatch):
    """With edges, or with all pairs of nodes where edges have no features."""
    limit = 1e9 if request.param == "dense" else 0
    monkeypatch.setattr(graph_transformer, "DENSE_PAIRS_PER_EDGE", limit)
    return request.param


def make_encoder(**options):
    torch.manual_seed(0)
    sizes = {"encoder_layers": 3, "encoder_embed_dim": 12, "encoder_attention_heads": 3}
    sizes |= {"node_encodings": "laplacian:2"}
    config = GraphTransformerEncoderConfig(**{**sizes, **options})
    encoder = GraphTransformerEncoder(FeatureSchema(2, NODE_DIMS, [2, 2]), config)
    for name, buffer in encoder.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(torch.rand(buffer.shape) + 0.5)
    return encoder.double().eval()


def make_graphs(rng, directed=False):
    """One of them without an edge, one of a single node."""
    sizes = [(5, 0.5), (1, 0.0), (7, 0.3), (4, 0.0), (6, 0.9)]
    return [random_graph(rng, n, density, directed=directed) for n, density in sizes]


def make_batch(encoder, graphs):
    fields = encoder.required_fields - {"wl_role"}
    batch = collate(graphs, fields)
    if "wl_role" in encoder.required_fields:
        batch["wl_role"] = (batch["x"].sum(-1) * 3).int()
    return batch


def normalise(norm, vector):
    if isinstance(norm, torch.nn.LayerNorm):
        mean = sum(vector) / len(vector)
        variance = sum((v - mean) ** 2 for v in vector) / len(vector)
    else:
        mean, variance = norm.running_mean, norm.running_var
    return (vector - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


def half_layers(block, before, attended):
    """Eq. 6-8, 13-15 and 16-18 for one vector."""
    first = normalise(block.attention_norm, before + attended)
    hidden = (block.fc1.weight @ first + block.fc1.bias).clamp(min=0)
    second = block.fc2.weight @ hidden + block.fc2.bias
    return normalise(block.ffn_norm, first + second)


@torch.no_grad()
def loop_over_equations(encoder, graph):
    """Node vectors of one graph, node by node, edge by edge, head by head."""
    nodes = range(len(graph["x"]))
    table = encoder.node_encoder.embedding.weight
    h = []
    for i in nodes:
        first, second = (int(value) for value in graph["x"][i])
        vector = table[first] + table[NODE_DIMS[0] + second]
        for term in encoder.node_encoder.encodings:
            projection = term.projection
            if isinstance(term.encoding, LaplacianEncoding):  # Eq. 3
                eigen = torch.from_numpy(graph["lap_pe"][i, :2]).double()
                vector = vector + projection.weight @ eigen + projection.bias
            elif isinstance(term.encoding, Degrees):
                into = {j for j, k in zip(graph["src"], graph["dst"]) if k == i}
                vector = vector + projection.tables[0].weight[min(len(into), 4)]
            else:
                vector = vector + projection.weight[3 * (first + second) % 5]
        h.append(vector)
    if encoder.full_graph:
        edges = [(j, i) for i in nodes for j in nodes if i != j]
    else:
        edges = list(zip(graph["src"].tolist(), graph["dst"].tolist()))
    e = None
    if encoder.bonds is not None:
        rows = encoder.bonds.embedding.weight
        bonds = [1] * len(edges) if encoder.full_graph else graph["bond"].tolist()
        columns = [((bond - 1) // 2, (bond - 1) % 2) for bond in bonds]
        e = [(rows[first] + rows[2 + second]) / 2 for first, second in columns]
    for layer in encoder.layers:
        attention, heads = layer.nodes.attention, layer.scores.num_heads
        width = len(h[0]) // heads
        query, key, value = layer.scores.qkv_proj.weight.chunk(3)
        channels = []
        for number, (j, i) in enumerate(edges):
            q = query @ h[i]
            k = key @ h[j]
            terms = q * k / math.sqrt(width)
            if e is not None:  # Eq. 12
                terms = terms * (layer.scores.edge.weight @ e[number])
            channels.append(terms)
        attended = []
        for i in nodes:
            parts = []
            for head in range(heads):
                part = slice(head * width, (head + 1) * width)
                numerator, total = torch.zeros(width).double(), 0.0
                for (j, target), terms in zip(edges, channels):
                    if target == i:
                        score = sum(terms[part].tolist())
                        weight = math.exp(min(max(score, -5), 5))
                        total += weight
                        numerator += weight * (value[part] @ h[j])
                if total:
                    numerator /= total + (0 if e is None else 1e-6)
                parts.append(numerator)
            mixed = torch.cat(parts)
            attended.append(attention.output.weight @ mixed + attention.output.bias)
        h = [half_layers(layer.nodes, h[i], attended[i]) for i in nodes]
        if e is not None:  # Eq. 10, 16-18
            output = layer.edges.attention.output
            e = [
                half_layers(layer.edges, e[n], output.weight @ terms + output.bias)
                for n, terms in enumerate(channels)
            ]
    return torch.stack(h)


@torch.no_grad()
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_equals_a_loop_over_the_equations(options, directed, form, rng):
    encoder = make_encoder(**options)
    for layer in encoder.layers:  # so that the clamp at 5 matters
        layer.scores.qkv_proj.weight.chunk(3)[0].mul_(20)
    graphs = make_graphs(rng, directed)
    batch = make_batch(encoder, graphs)
    out = encoder(batch)
    assert out.isfinite().all() and not out[~batch["node_mask"]].any()
    for number, graph in enumerate(graphs):
        expected = loop_over_equations(encoder, graph)
        error = (out[number, : len(expected)] - expected).abs().max()
        assert error < 1e-10, (number, error)


@torch.no_grad()
def test_parallel_edges_and_self_loops_count(form):
    graph = undirected_graph(4, [(0, 1), (1, 2), (1, 2), (3, 3)])
    graph["lap_pe"] = np.zeros((4, 3), np.float32)
    graph["x"][:, 0] = range(4)
    encoder = make_encoder(no_edge_features=True)
    out = encoder(make_batch(encoder, [graph]))
    expected = loop_over_equations(encoder, graph)
    assert (out[0] - expected).abs().max() < 1e-10
    single = undirected_graph(4, [(0, 1), (1, 2), (3, 3)])
    single |= {"lap_pe": graph["lap_pe"], "x": graph["x"]}
    assert (encoder(make_batch(encoder, [single])) - out).abs().max() > 1e-3


def test_forms_have_equal_gradients(rng, monkeypatch):
    graphs = make_graphs(rng)
    grads = []
    for limit in (0, 1e9):
        monkeypatch.setattr(graph_transformer, "DENSE_PAIRS_PER_EDGE", limit)
        encoder = make_encoder(no_edge_features=True)
        encoder.train()
        torch.manual_seed(0)  # seed of the signs
        out = encoder(make_batch(encoder, graphs))
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        grads.append({n: p.grad for n, p in encoder.named_parameters()})
    for name, grad in grads[0].items():
        assert (grad - grads[1][name]).abs().max() < 1e-9, name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("edges, dense", [(39, False), (390, True)])
def test_the_form_is_chosen_by_batch(edges, dense, dtype):
    """The compiled function, of float32, takes edges."""
    x = torch.zeros(40, 12, dtype=dtype)
    layout = NodeLayout(torch.ones(1, 40) > 0, torch.zeros(40, dtype=torch.int64))
    index = torch.zeros(2, edges, dtype=torch.int64)
    found = make_encoder().is_dense(x, layout, index)
    assert found is (dense and dtype == torch.float64)


def test_random_signs_in_training_only(rng):
    """What a training step sees does not depend on the signs that are stored."""
    encoder = make_encoder(node_encodings="laplacian:1", norm="layer")
    graph = random_graph(rng, 6, 0.5)
    batch = make_batch(encoder, [graph])
    flipped = {**batch, "lap_pe": -batch["lap_pe"]}
    with torch.no_grad():
        outcomes = {sign: encoder(b) for sign, b in ((1, batch), (-1, flipped))}
        assert torch.equal(encoder(batch), outcomes[1])
        assert (outcomes[1] - outcomes[-1]).abs().max() > 1e-3
        encoder.train()
        for stored in (batch, flipped):
            seen = []
            for _ in range(64):
                out = encoder(stored)
                seen.append(int(torch.equal(out, outcomes[1])))
                assert seen[-1] or torch.equal(out, outcomes[-1])
            assert 16 < sum(seen) < 48  # 4 standard deviations around 32


def test_full_graph_reads_no_edges():
    for plain in (False, True):
        encoder = make_encoder(full_graph=True, no_pair_features=plain)
        assert encoder.required_fields == {"x", "node_mask", "node_graph", "lap_pe"}
        assert (encoder.bonds is None) == plain
