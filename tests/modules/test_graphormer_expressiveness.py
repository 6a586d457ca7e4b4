"""What appendix A of Ying et al. 2021 proves, and the graphs of its Figure 2."""

import math

import numpy as np
import pytest
import torch

from graphormer_plugin.modules import BiasedAttention
from graphormer_plugin.modules import attn_bias as attn_bias_module
from support.graphormer import ABLATIONS, DIM, HEADS, batch_of, make_encoder
from support.toy_graphs import collate, hops, undirected_graph


def one_layer():
    """Attention with zero queries and keys and identity values."""
    attention = BiasedAttention(DIM, HEADS).double()
    with torch.no_grad():
        attention.qkv_proj.weight.zero_()
        attention.qkv_proj.weight[2 * DIM :] = torch.eye(DIM)
        attention.qkv_proj.bias.zero_()
        attention.out_proj.weight.copy_(torch.eye(DIM))
        attention.out_proj.bias.zero_()
    return attention


def distance_bias(graph, distance):
    """Eq. 6 with b = 0 at this distance and -inf (FORBIDDEN) elsewhere, nodes only."""
    encoder = make_encoder(edge_type="none")
    weight = encoder.attn_bias.spatial.embedding.weight
    with torch.no_grad():
        weight.fill_(attn_bias_module.FORBIDDEN)
        weight[distance + 1] = 0
        return encoder.attn_bias(batch_of(encoder, [graph]))[:, :, 1:, 1:]


@pytest.fixture
def ring():
    """A ring with a chord: every node has a neighbour."""
    return undirected_graph(6, [(i, (i + 1) % 6) for i in range(6)] + [(0, 3)])


@torch.no_grad()
def test_fact_1_mean_sum_max_and_combine(ring):
    torch.manual_seed(0)
    x = torch.randn(1, 6, DIM, dtype=torch.float64)
    neighbours = [ring["dst"][ring["src"] == i] for i in range(6)]
    bias, attention = distance_bias(ring, 1), one_layer()

    mean = torch.stack([x[0, j].mean(0) for j in neighbours])
    assert (attention(x, bias)[0] - mean).abs().max() < 1e-12

    # SUM: the mean times the degree, which the centrality encoding gives.
    degree = collate([ring], ["in_degree"])["in_degree"][0]
    total = torch.stack([x[0, j].sum(0) for j in neighbours])
    summed = attention(x, bias)[0] * degree.unsqueeze(-1)
    assert (summed - total).abs().max() < 1e-12

    # COMBINE: a head that permits distance 0 only gives the node itself.
    own = attention(x, distance_bias(ring, 0))[0]
    assert (own - x[0]).abs().max() < 1e-12

    # MAX of coordinate t: keys are that coordinate, queries a large temperature.
    attention = BiasedAttention(DIM, 1).double()
    t = 3
    attention.qkv_proj.weight.zero_()
    attention.qkv_proj.bias.zero_()
    attention.qkv_proj.bias[:DIM] = 1e4
    attention.qkv_proj.weight[DIM + t, t] = 1
    attention.qkv_proj.weight[2 * DIM :] = torch.eye(DIM)
    attention.out_proj.weight.copy_(torch.eye(DIM))
    attention.out_proj.bias.zero_()
    # -inf proper: the temperature beats any finite bias.
    bias = bias[:, :1].masked_fill(bias[:, :1] < 0, -math.inf)
    largest = torch.stack([x[0, j].max(0).values for j in neighbours])
    assert (attention(x, bias)[0, :, t] - largest[:, t]).abs().max() < 1e-9


@torch.no_grad()
def test_fact_2_mean_readout(ring):
    torch.manual_seed(0)
    x = torch.randn(1, 7, DIM, dtype=torch.float64)
    encoder = make_encoder(**ABLATIONS["plain"])
    bias = encoder.attn_bias(batch_of(encoder, [ring]))
    assert not bias.any()
    mean = x.mean(1, keepdim=True)
    assert (one_layer()(x, bias) - mean).abs().max() < 1e-12


# Figure 2. Left: two triangles' worth of distances without one; node colours agree.
LEFT = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)]
RIGHT = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)]


@torch.no_grad()
def test_figure_2_graphs_that_1_wl_cannot_tell_apart():
    left, right = undirected_graph(6, LEFT), undirected_graph(6, RIGHT)
    sets = [
        {tuple(sorted(row.astype(int).tolist())) for row in hops(graph)}
        for graph in (left, right)
    ]
    assert sets == [
        {(0, 1, 1, 2, 2, 3), (0, 1, 1, 1, 2, 2)},
        {(0, 1, 1, 2, 3, 3), (0, 1, 1, 1, 2, 2)},
    ]

    encoder = make_encoder(edge_type="none")
    out = encoder(batch_of(encoder, [left, right]))[:, 0]
    assert (out[0] - out[1]).abs().max() > 1e-3

    from torch_geometric.nn import GIN

    torch.manual_seed(0)
    gin = GIN(DIM, DIM, num_layers=4).double().eval()
    x = torch.ones(6, DIM, dtype=torch.float64)
    left, right = (
        gin(x, torch.tensor(np.stack([graph["src"], graph["dst"]]))).sum(0)
        for graph in (left, right)
    )
    assert (left - right).abs().max() < 1e-12
