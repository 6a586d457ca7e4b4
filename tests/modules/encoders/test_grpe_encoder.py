"""GRPE against a loop over the equations of Park et al. 2022, and its invariances."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules import GRPEEncoder, GRPEEncoderConfig, RelativeAttention
from graphormer_plugin.modules.attention.formula import heads_first
from graphormer_plugin.modules.attention.relative import _RelativeAttention
from support import toy_graphs
from support.graphormer import DIM, HEADS, SMALL, randomised
from support.toy_graphs import hops, random_graph

MAX_HOP, BOND_TYPES = 3, 4
ABLATIONS = list(itertools.product([False, True], repeat=3))


@pytest.fixture
def graphs():
    rng = np.random.default_rng(1)
    return [random_graph(rng, n, 0.25) for n in (7, 1, 9, 4)]


def make_encoder(**options):
    torch.manual_seed(0)
    schema = FeatureSchema(2, toy_graphs.NODE_DIMS, [BOND_TYPES])
    config = GRPEEncoderConfig(**{**SMALL, "max_hop": MAX_HOP, **options})
    return randomised(GRPEEncoder(schema, config))


def collate(graphs):
    fields = ["x", "node_mask", "relation_index", "relations"]
    return toy_graphs.collate(graphs, fields, BOND_TYPES, max_hop=MAX_HOP)


def twin(encoder, graph):
    """Eq. 6-9, pair by pair and head by head, with P and E looked up separately."""
    n, first = len(graph["x"]), int(encoder.virtual_node is not None)
    far, unreachable, virtual = MAX_HOP + 1, MAX_HOP + 2, MAX_HOP + 3
    no_edge, itself, to_virtual = BOND_TYPES, BOND_TYPES + 1, BOND_TYPES + 2
    dist = hops(graph)
    bond = {(u, v): b for u, v, b in zip(graph["src"], graph["dst"], graph["bond"])}

    def psi(i, j):
        if i == j == 0 and encoder.virtual_is_self:
            return 0
        if min(i, j) < first:
            return virtual
        d = dist[i - first, j - first]
        return unreachable if np.isinf(d) else far if d > MAX_HOP else int(d)

    def edge(i, j):
        if i == j == 0 and encoder.virtual_is_self:
            return itself
        if min(i, j) < first:
            return to_virtual
        if i == j:
            return itself
        return bond.get((i - first, j - first), no_edge + 1) - 1

    table = encoder.node_encoder.embedding.weight
    x = [encoder.virtual_node.embedding.weight[0]] if first else []
    x += [table[a] + table[7 + b] for a, b in graph["x"]]
    x = torch.stack(x)
    width = DIM // HEADS
    for number, layer in enumerate(encoder.layers):
        encoding = encoder.encodings[number % len(encoder.encodings)]
        zero = torch.zeros(2 * DIM, dtype=x.dtype)

        def row(module, index, zero=zero):
            return zero if module is None else module.weight[index]

        normed = layer.attention_norm(x)
        q, k, v = layer.attention.qkv_proj(normed).chunk(3, dim=-1)
        z = torch.zeros_like(x)
        for h in range(HEADS):
            part = slice(h * width, (h + 1) * width)
            key_part = slice(DIM + h * width, DIM + (h + 1) * width)
            for i in range(n + first):
                scores, values = [], []
                for j in range(n + first):
                    keyed = i if layer.attention.key_from_row else j
                    topology = row(encoding.topology_attention, psi(i, j))
                    edges = row(encoding.edge_attention, edge(i, j))
                    score = (
                        q[i, part] @ k[j, part]
                        + q[i, part] @ topology[part]
                        + k[keyed, part] @ topology[key_part]
                        + q[i, part] @ edges[part]
                        + k[keyed, part] @ edges[key_part]
                    )
                    scores.append(score / math.sqrt(width))
                    values.append(
                        v[j, part]
                        + row(encoding.topology_value, psi(i, j))[part]
                        + row(encoding.edge_value, edge(i, j))[part]
                    )
                weights = torch.softmax(torch.stack(scores), 0)
                z[i, part] = weights @ torch.stack(values)
        x = x + layer.attention.out_proj(z)
        x = x + layer.fc2(F.gelu(layer.fc1(layer.ffn_norm(x))))
    return encoder.final_norm(x)


@pytest.mark.parametrize("virtual_node", [True, False])
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("topology, edge, value", ABLATIONS)
@torch.no_grad()
def test_equals_the_equations(graphs, topology, edge, value, independent, virtual_node):
    encoder = make_encoder(
        no_topology_attention=not topology,
        no_edge_attention=not edge,
        no_graph_encoded_value=not value,
        independent_encodings=independent,
        no_virtual_node=not virtual_node,
    )
    out = encoder(collate(graphs))
    assert out.shape[1] == max(len(graph["x"]) for graph in graphs) + virtual_node
    for states, graph in zip(out, graphs):
        n = len(graph["x"]) + virtual_node
        assert (states[:n] - twin(encoder, graph)).abs().max() < 1e-10
        assert not states[n:].any()


@pytest.mark.parametrize("option", ["key_from_row", "virtual_is_self"])
@torch.no_grad()
def test_choices_of_the_released_code(graphs, option):
    encoder = make_encoder(**{option: True})
    out = encoder(collate(graphs))
    for states, graph in zip(out, graphs):
        n = len(graph["x"]) + 1
        assert (states[:n] - twin(encoder, graph)).abs().max() < 1e-10
    paper = make_encoder()
    paper.load_state_dict(encoder.state_dict())
    assert (paper(collate(graphs)) - out).abs().max() > 1e-3


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("key_from_row", [False, True])
def test_gradients_of_the_attention(key_from_row, dropout):
    torch.manual_seed(0)
    B, T, R = 2, 4, 3
    relation = torch.randint(0, R, (B, T, T))
    relation[0, :, -1] = R
    tables = [torch.randn(2, R + 1, 3, dtype=torch.float64) for _ in range(3)]
    for table in tables:
        table[:, R] = 0
        table.requires_grad_()
    qkv = torch.randn(B, T, 18, dtype=torch.float64, requires_grad=True)
    keep = torch.empty(2, B, T, T, dtype=qkv.dtype).bernoulli_(1 - dropout)

    def attend(qkv, *tables):
        # The forbidden row is a constant zero: it must not get a gradient.
        fixed = [torch.cat([t[:, :R], torch.zeros_like(t[:, R:])], 1) for t in tables]
        others = (*fixed, relation, None, keep if dropout else None)
        options = (dropout, key_from_row)
        return _RelativeAttention.apply(options, heads_first(qkv, 2), *others)

    assert torch.autograd.gradcheck(attend, (qkv, *tables))
    assert torch.autograd.gradgradcheck(attend, (qkv, *tables))


def test_a_row_without_any_permitted_pair_is_finite():
    attention = RelativeAttention(8, 2).half()
    x = (100 * torch.randn(1, 3, 8)).half().requires_grad_()
    tables = [torch.randn(2, 3, 4) for _ in range(3)]
    out = attention(x, tables, torch.full((1, 3, 3), 2))
    out.float().sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()
