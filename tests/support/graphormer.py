"""Small encoders of Graphormer, with the options of its ablation."""

import torch

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules import GraphormerEncoder, GraphormerEncoderConfig
from support.architectures import options_of
from support.toy_graphs import NODE_DIMS, collate

HEADS, DIM, STEPS = 4, 16, 3
BOND_DIMS = [3, 2]  # six joint types
BOND_TYPES = 6

# The rows of Table 5, and more.
TABLE_5 = {
    "plain": "node_relation=none node_encodings=none edge_type=none",
    "laplacian": "node_relation=none node_encodings=laplacian:2 edge_type=none",
    "spatial": "node_encodings=none edge_type=none",
    "centrality": "edge_type=none",
    "via node": "edge_type=node",
    "via aggregation": "edge_type=aggregation",
    "via attention": "",
    "single hop": "edge_type=single_hop",
    "undirected degree": "node_encodings=degrees:5:0",
    "edges without distances": "node_relation=none",
    "near only": "spatial_pos_max=2",
    "short table": "num_spatial=4",
    "random walk": "node_encodings=degrees,random_walks:3",
    "positions in space": "pair_encodings=gaussians gaussian_kernels=5 "
    "gaussian_types=ordered gaussian_node_factor=0.3",
    "post-norm": "pre_layernorm=false",
    "released": "pre_layernorm encoder_normalize_before final_norm=false",
    "relu": "activation_fn=relu",
    "nodes only": "no_virtual_node spatial_pos_max=2",
    "nodes only, via aggregation": "no_virtual_node edge_type=aggregation",
}
ABLATIONS = {name: options_of(text) for name, text in TABLE_5.items()}

SMALL = dict(
    encoder_layers=2,
    encoder_embed_dim=DIM,
    encoder_ffn_embed_dim=24,
    encoder_attention_heads=HEADS,
    dropout=0.0,
    attention_dropout=0.0,
)


def randomised(encoder):
    """The encoder in float64, with weights larger than at the start: all terms count."""
    encoder.double()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return encoder


def make_encoder(final_norm=None, **options):
    torch.manual_seed(0)
    settings = dict(
        multi_hop_max_dist=STEPS, num_in_degree=5, num_out_degree=6, pre_layernorm=True
    )
    schema = FeatureSchema(2, NODE_DIMS, BOND_DIMS)
    config = GraphormerEncoderConfig(**{**SMALL, **settings, **options})
    return randomised(GraphormerEncoder(schema, config, final_norm))


def batch_of(encoder, graphs):
    return collate(graphs, encoder.required_fields, BOND_TYPES, path_length=STEPS)
