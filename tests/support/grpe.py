"""Small encoders of GRPE, and batches for them."""

import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules import GRPEEncoder, GRPEEncoderConfig
from support import toy_graphs

MAX_HOP, BOND_TYPES, HEADS, DIM = 3, 4, 4, 16
FIELDS = ["x", "node_mask", "relation_index", "relations"]
SCHEMA = FeatureSchema(2, toy_graphs.NODE_DIMS, [BOND_TYPES])


def collate(graphs, fields=FIELDS):
    return toy_graphs.collate(graphs, fields, BOND_TYPES, max_hop=MAX_HOP)


def make_encoder(schema=SCHEMA, **options):
    torch.manual_seed(0)
    settings = dict(
        encoder_layers=2,
        encoder_embed_dim=DIM,
        encoder_ffn_embed_dim=24,
        encoder_attention_heads=HEADS,
        max_hop=MAX_HOP,
        dropout=0.0,
        attention_dropout=0.0,
    )
    config = GRPEEncoderConfig(**{**settings, **options})
    encoder = GRPEEncoder(schema, config).double()
    for parameter in encoder.parameters():  # larger than at the start: all terms count
        torch.nn.init.normal_(parameter, std=0.4)
    return encoder
