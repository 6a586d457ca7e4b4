"""CGT against loops over the equations of Menegaux et al. 2023, and its invariances."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules import (
    CGTEncoder,
    CGTEncoderConfig,
)
from support import toy_graphs
from support.toy_graphs import hops, random_graph

BOND_DIMS, D, HEADS, STEPS, EPS = [2, 3], 8, 2, 3, 1e-5
TYPES = 6


def make_encoder(**options):
    torch.manual_seed(0)
    settings = dict(
        encoder_layers=2,
        encoder_embed_dim=D,
        encoder_attention_heads=HEADS,
        relative_steps=STEPS,
        node_encodings="none",
        attention_dropout=0.0,
    )
    schema = FeatureSchema(2, toy_graphs.NODE_DIMS, BOND_DIMS)
    config = CGTEncoderConfig(**{**settings, **options})
    encoder = CGTEncoder(schema, config).double()
    for parameter in encoder.parameters():  # larger than at the start
        torch.nn.init.normal_(parameter, std=0.5)
    for name, buffer in encoder.named_buffers():
        if "running" in name:
            torch.nn.init.uniform_(buffer, 0.5, 1.5)
    return encoder


def make_graphs(seed=1, sizes=(6, 1, 8, 4), **options):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, n, 0.4, TYPES, **options) for n in sizes]
    for graph in graphs:
        n = len(graph["x"])
        shared = np.triu(rng.random((n, n)) < 0.4)
        graph["ring"] = shared | shared.T
    return graphs


def collate(encoder, graphs):
    fields = sorted(encoder.required_fields - {"ring"})
    batch = toy_graphs.collate(graphs, fields, TYPES, max_hop=encoder.pairs.max_hop)
    ring = torch.zeros(batch["relation_index"].shape, dtype=torch.uint8)
    for number, graph in enumerate(graphs):
        n = len(graph["x"])
        ring[number, :n, :n] = torch.from_numpy(graph["ring"].astype(np.uint8))
    return {**batch, "ring": ring}


def walks_of(graph, steps):
    """[(D^-1 A)^1, ..., (D^-1 A)^steps], a node without edges has a row of zeros."""
    n = len(graph["x"])
    step = np.zeros((n, n))
    step[graph["src"], graph["dst"]] = 1
    step /= np.maximum(step.sum(1, keepdims=True), 1)
    return [np.linalg.matrix_power(step, k + 1) for k in range(steps)]


def pair_vector(pairs, graph, dist, walks, i, j):
    """E^(0) of a pair: Eq. 8, 9, 11, 12, and section 3.4."""
    bond = {(u, v): b for u, v, b in zip(graph["src"], graph["dst"], graph["bond"])}
    shared = bool(graph["ring"][i, j])
    kind = int(shared and pairs.rings == "categorical")
    if i == j:
        vector = pairs.no_bonds.weight[2 * kind]
    elif (i, j) in bond:  # types count from 1, the last column fastest
        first, second = divmod(int(bond[i, j]) - 1, BOND_DIMS[1])
        table = pairs.bonds[kind].embedding.weight
        vector = (table[first] + table[BOND_DIMS[0] + second]) / 2
    else:
        vector = pairs.no_bonds.weight[2 * kind + 1]
    if pairs.rings == "additive" and shared and i != j:
        vector = vector + pairs.ring.weight[0 if (i, j) in bond else 1]
    parts = [vector]
    if pairs.distances is not None:
        beyond = pairs.distances.num_embeddings - 1
        parts.append(pairs.distances.weight[int(min(dist[i, j], beyond))])
    if pairs.walks is not None:
        walk = torch.tensor([power[i, j] for power in walks])[: pairs.walks.in_features]
        parts.append(pairs.walks.weight @ walk)
    return torch.cat(parts) if pairs.combine == "concat" else sum(parts)


def normalise(norm, x):
    scale = norm.weight / (norm.running_var + EPS).sqrt()
    return (x - norm.running_mean) * scale + norm.bias


def twin(encoder, graph):
    """Every pair, head and channel on its own."""
    n, pairs = len(graph["x"]), encoder.pairs
    dist, walks = hops(graph), walks_of(graph, 5)
    table = encoder.node_encoder.embedding.weight
    x = torch.stack([table[a] + table[7 + b] for a, b in graph["x"]])
    for term in encoder.node_encoder.encodings:
        steps = term.encoding.num_features
        back = np.stack([np.diag(power) for power in walks[:steps]], 1)
        back = normalise(term.encoding.norm, torch.from_numpy(back))
        x = torch.cat([x, back @ term.projection.weight.T + term.projection.bias], 1)
    edges = [
        [pair_vector(pairs, graph, dist, walks, i, j) for j in range(n)]
        for i in range(n)
    ]
    neighbours = set(zip(graph["src"], graph["dst"])) | {(i, i) for i in range(n)}
    forbidding = bool(pairs.forbidden[2])
    for number, layer in enumerate(encoder.layers):
        projection = encoder.projections[number % len(encoder.projections)]
        attention = layer.attention
        kind = attention.kind
        maps = attention.qkv_proj.weight.split(D)
        k, v = (x @ weight.T for weight in maps[-2:])
        # any queries: in "additive" they do not matter
        q = torch.rand_like(x) if kind == "additive" else x @ maps[0].T
        width = D // HEADS
        z = torch.zeros_like(x)
        for i in range(n):
            senders = [j for j in range(n) if (i, j) in neighbours or not forbidding]
            for c in range(D):
                h = c // width
                head = slice(h * width, h * width + width)
                total = weighed = 0.0
                for j in senders:
                    att = projection.att.weight @ edges[i][j]
                    if kind == "additive":
                        score = q[i, c] + k[j, c] + att[c]
                    else:
                        score = q[i, head] @ k[j, head] / math.sqrt(width)
                        score = score + att[h if kind == "mono" else c]
                    message = v[j, c]
                    if projection.val is not None:
                        message = message + projection.val.weight[c] @ edges[i][j]
                    total = total + score.exp()
                    weighed = weighed + score.exp() * message
                z[i, c] = weighed / total
        x = normalise(layer.attention_norm, x + attention.out_proj(z))
        inner = (x @ layer.fc1.weight.T + layer.fc1.bias).clamp(min=0)
        x = normalise(layer.ffn_norm, x + inner @ layer.fc2.weight.T + layer.fc2.bias)
    return x


OPTIONS = [
    {},
    {"relative_encoding": "spde"},
    {"relative_encoding": "both"},
    {"relative_encoding": "none"},
    {"relative_encoding": "both", "pair_combine": "sum"},
    {"relative_encoding": "both", "relative_dim": 7},  # one channel for the bond
    {"rings": "additive"},
    {"rings": "categorical"},
    {"rings": "categorical", "relative_encoding": "spde", "pair_combine": "sum"},
    {"rings": "additive", "relative_encoding": "spde", "attention": "mono"},
    {"node_encodings": "random_walks:5", "node_encoding_dim": 3},
    {
        "node_encodings": "random_walks:2",
        "node_encoding_dim": 3,
        "relative_encoding": "none",
    },
    {"share_edge_encoding": True},
    {"share_edge_encoding": True, "rings": "categorical"},
    {"neighbours_only": True},
    {"neighbours_only": True, "relative_encoding": "spde", "attention": "mono"},
    {"attention": "mono"},
    {"attention": "mono", "share_edge_encoding": True},
    {"attention": "additive"},
    {"attention": "additive", "no_edge_values": True},
    {"no_edge_values": True},
    {"no_edge_values": True, "share_edge_encoding": True, "attention": "mono"},
    {"output_projection": "none"},
    {"output_projection": "low_rank"},
    {"encoder_ffn_embed_dim": 5},
]


@torch.no_grad()
@pytest.mark.parametrize("memory", ["plain", "lean"])
@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items())
)
def test_equals_loops_over_the_equations(options, memory):
    encoder = make_encoder(**options, attention_memory=memory).eval()
    graphs = make_graphs(sizes=(5, 1, 7))
    out = encoder(collate(encoder, graphs))
    for number, graph in enumerate(graphs):
        n = len(graph["x"])
        assert (out[number, :n] - twin(encoder, graph)).abs().max() < 1e-10
        assert (out[number, n:] == 0).all()


@torch.no_grad()
def test_directed_edges_are_followed():
    encoder = make_encoder(relative_encoding="both").eval()
    graphs = make_graphs(sizes=(6,), directed=True)
    out = encoder(collate(encoder, graphs))
    assert (out[0] - twin(encoder, graphs[0])).abs().max() < 1e-10


def test_padding_does_not_matter_in_training():
    """BatchNorm sees real nodes only, so that a graph without batch mates comes out
    the same with padding, and padding gets no gradient."""
    encoder = make_encoder(node_encodings="random_walks:4", node_encoding_dim=2).train()
    graphs = make_graphs(sizes=(6, 6))
    batch = collate(encoder, graphs)
    out = encoder(batch)
    pad = {name: field for name, field in batch.items() if name != "relations"}
    widen = torch.nn.functional.pad
    pad["x"] = widen(batch["x"], (0, 0, 0, 2), value=1)
    pad["node_mask"] = widen(batch["node_mask"], (0, 2))
    for name in ("relation_index", "bond"):
        pad[name] = widen(batch[name], (0, 2, 0, 2))
    perturb = torch.zeros(2, 8, D, dtype=torch.float64, requires_grad=True)
    padded = encoder({**pad, "relations": batch["relations"]}, perturb)
    assert (padded[:, :6] - out).abs().max() < 1e-12
    padded.square().sum().backward()
    assert (perturb.grad[:, 6:] == 0).all() and (perturb.grad[:, :6] != 0).any()


@pytest.mark.parametrize("kind", ["chromatic", "mono", "additive"])
def test_both_paths_have_the_same_gradients(kind):
    """In training, where both draw the same random numbers for dropout."""
    graphs, grads = make_graphs(), {}
    for memory in ("plain", "lean"):
        encoder = make_encoder(
            rings="additive",
            share_edge_encoding=True,
            attention=kind,
            attention_memory=memory,
            attention_dropout=0.3,
            node_dropout=0.2,
            channel_dropout=0.2,
            dropout=0.1,
        ).train()
        torch.manual_seed(0)
        encoder(collate(encoder, graphs)).pow(3).sum().backward()
        grads[memory] = {name: p.grad for name, p in encoder.named_parameters()}
    for name, grad in grads["plain"].items():
        # a bias before BatchNorm has no gradient but rounding
        bound = 1e-9 * grad.abs().max() + 1e-12
        assert (grad - grads["lean"][name]).abs().max() < bound, name


def test_auto_goes_by_size():
    encoder = make_encoder()
    assert not encoder.lean(torch.empty(2, 20, 8))
    assert encoder.lean(torch.empty(2, 1000, 8))
    assert not make_encoder(attention_memory="plain").lean(torch.empty(2, 1000, 8))
    assert make_encoder(attention_memory="lean").lean(torch.empty(2, 2, 8))


def test_auto_goes_by_the_memory_of_a_gpu(monkeypatch):
    """A third of 36 MB for two layers, which keep 12 bytes of each element."""
    memory = SimpleNamespace(total_memory=36 * 10**6)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: memory)
    encoder = make_encoder()
    for nodes, lean in (250, False), (251, True):
        x = torch.empty(1, nodes, 8)
        gpu = SimpleNamespace(device=torch.device("cuda"), shape=x.shape, numel=x.numel)
        assert encoder.lean(gpu) == lean


def test_pair_features_are_mapped_once():
    """When the layers share the map."""
    encoder = make_encoder(share_edge_encoding=True)
    mapped = []
    (projection,) = encoder.projections
    projection.register_forward_hook(lambda module, args, out: mapped.append(out))
    encoder(collate(encoder, make_graphs()))
    assert len(mapped) == 1
