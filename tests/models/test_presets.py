"""Presets: numbers of weights and options of the papers, and of released codes."""

import pytest

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import ARCHITECTURES
from support.architectures import GRAPHS, OGB, ZINC, num_weights, options_of


def values(number):
    return TargetSchema.of([f"y{index}" for index in range(number)])


def communities(symbols, number):
    more = {"kind": "multiclass", "level": "node", "num_classes": number}
    return FeatureSchema(1, [symbols], []), TargetSchema.of(["class"], **more)


DATA = {
    "zinc": (ZINC, GRAPHS),
    "ogb": (OGB, GRAPHS),
    "pcba": (OGB, values(128)),
    "pattern": communities(3, 2),
    "cluster": communities(7, 6),
}
TABLES = "node_table_size=512 bond_table_size=512 num_edge_dis=128"
TABLES_OF_ZINC = "node_table_size=64 bond_table_size=64 num_edge_dis=40"
# Architecture, data and options; weights; how far these may be off.
SIZES = f"""
# GRPE, Table 1. OGB: nine atom columns in tables of 512 rows each, as in the published code.
# That numbers the bonds 0..63; here 60 types are the true number of combinations. ZINC: the
# paper does not state the tables behind its counts: the tiny model comes out at 105,985, the
# small one at 476,801, where its 489k would be 51 more rows in each of the query, key and value
# tables.
grpe_tiny zinc | 106e3 | 0.03
grpe_small zinc | 489e3 | 0.03
grpe_standard ogb node_table_size=512 | 46.2e6 | 0.01
grpe_large ogb node_table_size=512 | 118.3e6 | 0.01
# Graphormer. The first release had smaller tables for ZINC, some of them in the preset, the same
# as the second release elsewhere, and a final LayerNorm.
graphormer_paper_slim zinc {TABLES_OF_ZINC} | 489321 + 2 * 80 | 0
graphormer_paper_small ogb {TABLES} | 12.5e6 | 0.005
graphormer_paper_base ogb {TABLES} | 47.1e6 | 0.005
graphormer_paper_deep pcba {TABLES} | 119.5e6 | 0.005
# Its page has 48.3M, with a pooler of 768 * 769, a linear map that it never uses.
graphormer_base ogb | 47676705 | 0
graphormer_base ogb {TABLES} | 47676705 | 0
# CGT. The paper says 8.3M in Table 3, 8.2M in Table 6; the released code has 8.65M.
cgt_zinc zinc | 350e3 | 0.02
cgt_zinc_rings zinc | 350e3 | 0.02
cgt_pattern pattern | 259e3 | 0.02
cgt_cluster cluster | 382e3 | 0.02
cgt_small ogb | 2.8e6 | 0.02
cgt_deep ogb | 8.65e6 | 0.02
# GT, Tables 1 and 3; 83.2M and 0.6M of Table 1 of Ying et al. 2021.
gt_zinc zinc | 588929 | 0
gt_zinc zinc norm=layer | 588929 | 0
gt_zinc zinc node_encodings=none | 588353 | 0
gt_zinc zinc node_encodings=degrees:37:0 | 590721 | 0
gt_zinc zinc full_graph | 588929 | 0
gt_zinc zinc node_encodings=none full_graph | 588353 | 0
gt_sbm pattern | 522982 | 0
gt_sbm pattern node_encodings=none | 522742 | 0
gt_sbm pattern node_encodings=degrees:100:0 | 530742 | 0
gt_sbm pattern full_graph | 522982 | 0
gt_sbm cluster node_encodings=laplacian:10 | 524026 | 0
gt_sbm cluster node_encodings=none norm=layer | 523146 | 0
gt_sbm cluster node_encodings=degrees:100:0 | 531146 | 0
gt_wide ogb | 83215105 | 0
gt_zinc ogb | 598849 | 0
# Table 4 of Ying et al. 2021; what is missing here is in the docstring of gnn.py.
gcn zinc | 505079 | 0
gin zinc | 509549 - 16 | 0
graphsage zinc | 505341 | 0
gat zinc | 531345 | 0
gatedgcn zinc node_encodings=laplacian:8 | 505011 - 156 | 0
mpnn zinc | 480805 - 16 * 5 * (22 * 22 + 2 * 22) | 0
pna zinc | 387155 - 16 * 5 * (14 * 14 + 2 * 14) | 0
# Table 1 of Ying et al. 2021 has 2.0M, 4.9M, 3.8M and 6.7M.
gcn_pcqm4m ogb | 1956001 | 0
gcn_pcqm4m ogb virtual_node | 4851001 | 0
gin_pcqm4m ogb | 3762006 | 0
gin_pcqm4m ogb virtual_node | 6657006 | 0
# GPS-medium has 19.4M.
gps_medium ogb | 19.4e6 | 0.0025
"""
# Names of options, and their values in each preset.
OPTIONS = """
encoder_layers encoder_embed_dim encoder_ffn_embed_dim encoder_attention_heads
# Table 1 of Park et al. 2022.
grpe_tiny 4 64 64 8
grpe_small 12 80 80 8
grpe_standard 12 768 768 32
grpe_large 18 1024 1024 32

encoder_layers
gcn 16
gin 16
graphsage 16
gat 16
gatedgcn 16
mpnn 16
pna 16

readout no_residual linear_last_layer xavier_embeddings head_style
gcn_pcqm4m sum true true true linear
gin_pcqm4m sum true true true linear

encoder_layers encoder_attention_heads node_encodings
gt_zinc 10 8 laplacian:8
gt_sbm 10 8 laplacian:2
gt_wide 10 8 laplacian:4

encoder_layers encoder_embed_dim encoder_attention_heads dropout attention_dropout node_encodings
# Table 6 of Menegaux et al. 2023.
cgt_zinc 10 64 4 0 0.5 random_walks:20
cgt_zinc_rings 10 64 4 0 0.5 random_walks:20
cgt_pattern 6 64 4 0 0.5 random_walks:16
cgt_cluster 16 48 8 0.1 0.5 random_walks:16
cgt_small 5 256 16 0 0.5 none
cgt_deep 16 256 16 0 0.5 none

relative_encoding relative_steps share_edge_encoding rings max_ring_size readout activation_fn
# `gnn.act: gelu` in the released configs for PCQM4Mv2.
cgt_zinc rwse 20 true none 18 sum relu
cgt_zinc_rings rwse 20 true categorical 18 sum relu
cgt_pattern rwse 16 false none 18 sum relu
cgt_cluster rwse 16 false none 18 sum relu
cgt_small rwse 16 true none 18 mean gelu
cgt_deep spde 8 true additive 6 mean gelu

encoder_layers encoder_embed_dim encoder_attention_heads local_part readout
gps_zinc 10 64 4 gine sum
gps_peptides 4 96 4 gatedgcn mean
gps_medium 10 384 16 gatedgcn mean
exphormer_pattern 4 40 4 gatedgcn mean
exphormer_cluster 20 32 8 gatedgcn mean
exphormer_cifar10 5 40 4 gatedgcn mean
exphormer_mnist 5 40 4 gatedgcn mean
exphormer_peptides_func 8 64 4 gatedgcn mean

attention_dropout dropout
# The published dropout of ZINC.
gps_zinc 0.5 0

attention attention_dropout edge_sets virtual_nodes dropout act_dropout node_encodings head_layers
# Released settings of Exphormer.
exphormer_pattern edges 0 random_expander:7 4 0 0 laplacian:10 2
exphormer_cluster edges 0 random_expander:3 3 0.1 0.1 laplacian:10 2
exphormer_cifar10 edges 0 random_expander:5 1 0.1 0.1 laplacian:8 1
exphormer_mnist edges 0 random_expander:5 1 0.1 0.1 laplacian:8 1
exphormer_peptides_func edges 0 '' 1 0.12 0.12 laplacian:10 0
"""
LONG = ("grpe_large", "graphormer_paper_deep", "gt_wide")


def rows(text):
    return [line for line in text.splitlines() if line and line[0] != "#"]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[pytest.mark.long] * row.startswith(LONG))
        for row in rows(SIZES)
    ],
)
def test_numbers_of_weights(row):
    words, number, tolerance = row.split(" | ")
    arch, data, *options = words.split(" ", 2)
    found = num_weights(arch, *DATA[data], **options_of(" ".join(options)))
    assert found == pytest.approx(eval(number), rel=float(tolerance), abs=0)


@pytest.mark.parametrize("table", OPTIONS.strip().split("\n\n"))
def test_options(table):
    names, *presets = rows(table)
    for arch, *cells in map(str.split, presets):
        pairs = zip(names.split(), cells, strict=True)
        expected = options_of(" ".join("=".join(pair) for pair in pairs))
        options = ARCHITECTURES[arch].options()
        assert {name: options[name] for name in expected} == expected, arch
