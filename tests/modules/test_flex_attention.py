"""Networks with flex_attention against the same networks without."""

import sys
from functools import partial

import numpy as np
import pytest
import torch

from graphormer_plugin.modules import (
    flex_attention,
    graphormer_encoder,
    relative_attention,
)
from support import grpe
from support.graphormer import ABLATIONS, batch_of, make_encoder
from support.toy_graphs import random_graph

SCORES = {name: row for name, row in ABLATIONS.items() if "aggregation" not in name}
GRPE = {
    "topology and edge": {},
    "topology": dict(no_edge_attention=True),
    "edge": dict(no_topology_attention=True),
    "released": dict(key_from_row=True, virtual_is_self=True),
    "nodes only": dict(no_virtual_node=True),
    "random walks": dict(pair_encodings="random_walks"),
}


make_grpe = partial(grpe.make_encoder, no_graph_encoded_value=True)


@pytest.fixture
def graphs():
    rng = np.random.default_rng(1)
    return [random_graph(rng, n, 0.2) for n in (7, 1, 9, 4)]


@pytest.fixture
def everywhere(monkeypatch):
    """flex_attention also on a CPU, compiled anew."""
    torch.compiler.reset()
    for module in (graphormer_encoder, relative_attention):
        monkeypatch.setattr(module, "flex_attention_fits", lambda x: True)


def recorded_weights(encoder, batch):
    """The output, and the attention weights of every layer, without a gradient."""
    weights = []
    for module in encoder.attention_modules():
        module.register_forward_pre_hook(
            lambda module, inputs: weights.append(module.attention_weights(*inputs))
        )
    with torch.no_grad():
        return encoder(batch), torch.stack(weights)


def check_equal(dense, flexible, batch):
    both = (recorded_weights(one, batch) for one in (dense, flexible))
    for ours, theirs in zip(*both):
        assert ours.abs().max() > 0
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)


def both_ways(make, options):
    """Encoders without and with flex_attention."""
    return (make(**options, flex_attention=flex).eval() for flex in (False, True))


@pytest.mark.parametrize("name", SCORES)
def test_graphormer_is_the_same(graphs, name, everywhere):
    dense, flexible = both_ways(make_encoder, SCORES[name])
    check_equal(dense, flexible, batch_of(dense, graphs))


@pytest.mark.parametrize("name", GRPE)
def test_grpe_is_the_same(graphs, name, everywhere):
    dense, flexible = both_ways(make_grpe, GRPE[name])
    check_equal(dense, flexible, grpe.collate(graphs, dense.required_fields))


def test_no_bias_of_all_heads_and_pairs_is_made(graphs):
    encoder = make_encoder(flex_attention=True)
    batch = batch_of(encoder, graphs)
    B, N = batch["node_mask"].shape
    bias = encoder.attn_bias.tables(batch)
    assert bias.further is None and len(bias.terms) == 2
    for tables, steps, _ in bias.terms:
        places = {table.data_ptr() for table in tables}
        assert len(places) == len(tables) == len(steps)
        assert all(rows.shape == (B, N + 1, N + 1) for rows in steps)


@pytest.mark.parametrize("make", [make_encoder, make_grpe])
def test_gradients_are_the_same(graphs, make, everywhere, monkeypatch):
    """As one graph, as torch.compile makes it for a GPU, with PyTorch's operations for its
    kernel; PyTorch refuses gradients on a CPU."""
    module = sys.modules["torch.nn.attention.flex_attention"]
    if not hasattr(module, "_validate_device"):
        pytest.skip("this PyTorch refuses gradients on a CPU elsewhere")
    monkeypatch.setattr(module, "_validate_device", lambda *_: None)
    compiled = torch.compile(
        module.flex_attention, dynamic=True, backend="aot_eager", fullgraph=True
    )
    monkeypatch.setattr(flex_attention, "flex_attention", compiled)
    gradients = []
    for encoder in both_ways(make, {}):
        of_graphormer = make is make_encoder
        batch = batch_of(encoder, graphs) if of_graphormer else grpe.collate(graphs)
        encoder(batch).square().sum().backward()
        gradients.append([weight.grad for weight in encoder.parameters()])
    for dense, flexible in zip(*gradients, strict=True):
        assert (dense is None) == (flexible is None)
        if dense is not None:
            torch.testing.assert_close(flexible, dense, rtol=1e-9, atol=1e-9)


def test_a_cpu_computes_as_without_the_flag(graphs):
    dense, flexible = (make_encoder(flex_attention=flex) for flex in (False, True))
    batch = batch_of(dense, graphs)
    for encoder in (dense, flexible):
        encoder(batch).sum().backward()
    for ours, theirs in zip(flexible.parameters(), dense.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_refusals():
    with pytest.raises(ValueError, match="attention_dropout 0"):
        make_encoder(flex_attention=True, attention_dropout=0.1)
    with pytest.raises(ValueError, match="no_graph_encoded_value"):
        make_grpe(flex_attention=True, no_graph_encoded_value=False)
    with pytest.raises(ValueError, match="aggregation"):
        make_encoder(flex_attention=True, edge_type="aggregation")
