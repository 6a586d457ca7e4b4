"""Small encoders of GRPE, and batches for them."""

import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules import GRPEEncoder, GRPEEncoderConfig
from support import toy_graphs
from support.graphormer import SMALL, randomised

MAX_HOP, BOND_TYPES = 3, 4
FIELDS = ["x", "node_mask", "relation_index", "relations"]
SCHEMA = FeatureSchema(2, toy_graphs.NODE_DIMS, [BOND_TYPES])


def collate(graphs, fields=FIELDS):
    return toy_graphs.collate(graphs, fields, BOND_TYPES, max_hop=MAX_HOP)


def make_encoder(schema=SCHEMA, **options):
    torch.manual_seed(0)
    config = GRPEEncoderConfig(**{**SMALL, "max_hop": MAX_HOP, **options})
    return randomised(GRPEEncoder(schema, config))
