"""Attention maps of every architecture."""

import pytest
import torch

from graphormer_plugin.inference.attribution import attention_maps
from graphormer_plugin.modules import ChromaticAttention, PairVectors
from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.attention.edge import EdgeAttention
from graphormer_plugin.modules.attention.formula import RelationTables
from graphormer_plugin.modules.attention.relative import RelativeAttention
from support.architectures import ARCHITECTURES, NODES_ONLY, make_batch, tiny_model

GRAPH = 3  # a graph of `make_columns`


@pytest.fixture(
    params=[*((arch, {}) for arch in ARCHITECTURES), *NODES_ONLY],
    ids=lambda param: param[0],
)
def model(request):
    arch, options = request.param
    torch.manual_seed(1)
    model = tiny_model(arch, **options)
    for weight in model.parameters():  # away from published initial values near 0
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    return model.double().eval()


def test_attention_maps_are_weights(model):
    batch = make_batch(model, [GRAPH])
    if not model.encoder.attention_modules():
        with pytest.raises(ValueError, match="no attention maps"):
            attention_maps(model, batch)
        return
    for module in model.encoder.attention_modules():
        if hasattr(module, "epsilon"):  # in the denominator of GT
            module.epsilon = 0.0
    before = model(batch)
    maps = attention_maps(model, batch)
    nodes = batch["x"].shape[1] + int(model.virtual_node)
    runs = len(model.encoder.layers) * getattr(model.encoder, "blocks", 1)
    assert len(maps) == runs and maps.shape[2:] == (nodes, nodes)
    sums = maps.sum(-1)
    if hasattr(model.encoder, "edge_kinds"):  # the rest is of virtual nodes
        assert (sums > 0).all() and (sums < 1).all()
    else:
        torch.testing.assert_close(sums, torch.ones_like(sums))
    assert torch.equal(model(batch), before)  # nothing of it is left behind


# The maps times the values are what the layer computes.


def check_sum(weights, value, out):
    """weights [B, H, N, N], value and out [B, N, D]."""
    heads = value.unflatten(-1, (weights.shape[1], -1)).transpose(1, 2)
    torch.testing.assert_close((weights @ heads).transpose(1, 2).flatten(2), out)


def attention_and_input(attention, **options):
    torch.manual_seed(0)
    module = attention(8, 2, **options).double().eval()
    return module, torch.randn(3, 5, 8, dtype=torch.float64)


def test_biased():
    module, x = attention_and_input(BiasedAttention)
    module.out_proj = torch.nn.Identity()
    bias = torch.randn(3, 2, 5, 5, dtype=x.dtype)
    value = module.qkv_proj(x).chunk(3, -1)[2]
    check_sum(module.attention_weights(x, bias), value, module(x, bias))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("key_from_row", [False, True])
def test_relative(key_from_row, biased):
    module, x = attention_and_input(RelativeAttention, key_from_row=key_from_row)
    module.out_proj = torch.nn.Identity()
    tables = [torch.randn(2, 5, 4, dtype=x.dtype) for _ in range(3)]
    for table in tables:
        table[:, -1] = 0
    tables = RelationTables(*tables[:2], torch.zeros_like(tables[2]))
    relation = torch.randint(0, 5, (3, 5, 5))
    relation[:, :, 0] = 0  # every row has a sender; 4 is forbidden
    bias = [torch.randn(3, 2, 5, 5, dtype=x.dtype)] * biased
    weights = module.attention_weights(x, tables, relation, *bias)
    assert not weights[(relation == 4).unsqueeze(1).expand_as(weights)].any()
    value = module.qkv_proj(x).chunk(3, -1)[2]
    check_sum(weights, value, module(x, tables, relation, *bias))


@pytest.mark.parametrize("kind", ["chromatic", "mono", "additive"])
def test_chromatic(kind):
    options = {"kind": kind, "output_projection": "none"}
    module, x = attention_and_input(ChromaticAttention, **options)
    features = torch.randn(3, 5, 5, 6, dtype=x.dtype)
    att = torch.randn(6, 2 if kind == "mono" else 8, dtype=x.dtype)
    for memory in ("plain", "lean"):
        pairs = PairVectors(features, att, None, memory)
        value = module.qkv_proj(x).split(8, -1)[-1]
        check_sum(module.attention_weights(x, pairs), value, module(x, pairs))


def test_of_edges():
    module, x = attention_and_input(EdgeAttention)
    module.output = torch.nn.Identity()
    edges = torch.tensor([[0, 1, 1, 2, 4, 4], [1, 0, 2, 1, 3, 3]])  # one twice
    qkv = torch.randn(5, 24, dtype=x.dtype)
    mixed, _ = module.messages(qkv, None, edges)
    arguments = x[0], mixed, qkv, None, edges
    weights = module.attention_weights(*arguments)
    value = qkv[:, 16:].unsqueeze(0)
    check_sum(weights, value, module(*arguments).unsqueeze(0))
    assert (weights[0, :, 3, 4] - 1).abs().max() < 1e-12  # j = 4 sends to i = 3
