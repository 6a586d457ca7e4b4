"""Structure and tables of Graphormer."""

import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.modules import LinearHead, TransformHead
from graphormer_plugin.modules.layers.encoder_layer import gelu_float32
from support.architectures import OGB

OGB_TABLES = dict(node_table_size=512, bond_table_size=512, num_edge_dis=128)


def tiny(schema=OGB, arch="graphormer_paper_slim", **options):
    sizes = dict(encoder_layers=1, encoder_embed_dim=16, encoder_ffn_embed_dim=16)
    return build_model(arch, schema, TargetSchema.of(["a", "b"]), **sizes, **options)


def test_tables_follow_the_vocabulary_or_the_options():
    encoder = tiny().encoder
    assert encoder.node_encoder.embedding.num_embeddings == sum(OGB.node_dims)
    assert encoder.attn_bias.edges.bonds.embedding.num_embeddings == 13
    assert len(encoder.attn_bias.edges.weight) == 5
    encoder = tiny(**OGB_TABLES).encoder
    assert encoder.node_encoder.embedding.num_embeddings == 9 * 512
    assert encoder.attn_bias.edges.bonds.embedding.num_embeddings == 3 * 512
    assert len(encoder.attn_bias.edges.weight) == 128


def test_structure_of_the_paper_and_of_the_second_version():
    """What sets them apart is in the docstring of graphormer_plugin/models/graphormer.py."""
    found = {}
    for name, (arch, options) in {
        "paper": ("graphormer_paper_slim", {}),
        "second": ("graphormer_slim", {}),
        "second, pre-norm": ("graphormer_slim", {"pre_layernorm": True}),
        "second, dropout 0.3": ("graphormer_slim", {"dropout": 0.3}),
    }.items():
        model = tiny(arch=arch, **options)
        encoder, layer = model.encoder, model.encoder.layers[0]
        parts = encoder.embed_norm, encoder.final_norm, model.head
        rates = encoder.input_dropout, layer.dropout, layer.act_dropout
        found[name] = (
            [type(part) for part in parts],
            layer.pre_layernorm,
            layer.activation is gelu_float32 and layer.attention.float32_softmax,
            [rate.p for rate in (*rates, layer.attention.dropout)],
        )
    norm, none, head = torch.nn.LayerNorm, torch.nn.Identity, TransformHead
    assert found == {
        "paper": ([none, norm, LinearHead], True, False, [0, 0.1, 0, 0.1]),
        "second": ([norm, none, head], False, True, [0, 0, 0.1, 0.1]),
        "second, pre-norm": ([norm, none, head], True, True, [0, 0, 0.1, 0.1]),
        "second, dropout 0.3": ([norm, none, head], False, True, [0.3, 0.3, 0.1, 0.1]),
    }


def test_unknown_bonds_of_a_table_have_a_row():
    schema = FeatureSchema(1, [5], [300, 2], bond_table=[[7, 0], [299, 1]])
    bonds = tiny(schema).encoder.attn_bias.edges.bonds
    table = bonds()
    assert table.shape == (4, 8) and not table[0].any()
    weight = bonds.embedding.weight
    assert torch.equal(table[3], (weight[300] + weight[303]) / 2)


def test_graphs_without_bond_features():
    bonds = tiny(FeatureSchema(1, [5])).encoder.attn_bias.edges.bonds
    assert torch.equal(bonds()[1], bonds.embedding.weight[0])
