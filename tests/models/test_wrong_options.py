"""Options that no model can have. A row is an architecture, its options, and words of the
message."""

import pytest

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from support.architectures import (
    SCHEMA,
    SMALLEST,
    TARGETS,
    has_option,
    options_of,
    rates_of,
    tiny_model,
)

# For every architecture that has the option.
COMMON = """
encoder_layers=0 | encoder_layers 0: expected 1 or more
encoder_embed_dim=0 | embed_dim 0: expected 1 or more
encoder_attention_heads=3 | not a multiple of 3 heads
encoder_attention_heads=0 | not a multiple of 0 heads
readout=avg | unknown readout 'avg', expected mean|sum|max
clamp_max=-1.0 | clamp_max -1.0: expected 0 or more
freeze_encoder_layers=3 | the encoder has 2 layers
freeze_encoder_layers=-1 | expected 0 or more
layerwise_lr_decay=0.0 | expected above 0, at most 1
pair_encodings=walk | unknown pair encoding 'walk', expected
pair_encodings=none gaussian_kernels=8 | gaussian_kernels 8 only works with pair_encodings gau
pair_encodings=random_walks gaussian_types=sum | gaussian_types sum only works with
pair_encodings=none gaussian_start=normal | gaussian_start normal only works with
pair_encodings=none gaussian_node_factor=1.0 | gaussian_node_factor 1.0 only works with
pair_encodings=random_walks:0 | random_walks 0: expected 1 or more
node_encodings=walk | unknown node encoding 'walk', expected degrees|heat_kernel|
node_encodings=laplacian, | unknown node encoding ''
node_encodings=laplacian:x | node encoding 'laplacian:x': expected laplacian or laplacian:N
node_encodings=laplacian:8:9 | node encoding 'laplacian:8:9': too many numbers
node_encodings=laplacian:0 | laplacian 0: expected 1 or more
node_encodings=random_walks:0 | random_walks 0: expected 1 or more
node_encodings=signnet:0 | signnet 0: expected 1 or more
node_encodings=degrees:0 | degrees 0: expected 1 or more
node_encodings=laplacian,signnet:4 | one batch cannot have lap_pe_dim
node_encodings=wl,degrees node_encoding_dim=32 | node_encoding_dim 32 of 2 encodings
node_encodings=wl node_encoding_dim=-1 | node_encoding_dim -1
"""
OWN = """
grpe_tiny perturb_noise=-0.1 | perturb_noise -0.1
grpe_tiny attention_dropout=-0.1 | dropout probability -0.1
grpe_tiny max_hop=0 | max_hop 0
grpe_tiny virtual_is_self no_virtual_node | virtual_is_self needs a virtual node
grpe_tiny node_table_size=4 | 7 values, table_size is 4
graphormer_slim edge_type=path | unknown edge_type 'path', expected multi_hop|single
graphormer_slim node_relation=wl | unknown node_relation 'wl'
graphormer_slim num_spatial=2 | num_spatial 2
graphormer_slim multi_hop_max_dist=0 | max_steps 0
graphormer_slim num_edge_dis=2 | num_weights 2
graphormer_slim spatial_pos_max=0 | spatial_pos_max 0
graphormer_slim num_in_degree=0 | degrees 0
graphormer_slim pair_encodings=gaussians gaussian_kernels=0 | gaussian_kernels 0
graphormer_slim bond_table_size=2 | 3 values, table_size is 2
graphormer_slim activation_fn=tanh | unknown activation 'tanh'
graphormer_slim head_style=mlp | unknown head_style 'mlp', expected linear|transform
gt_zinc norm=instance | unknown norm 'instance', expected batch|layer
gps_zinc local_part=gcnn | unknown local_part 'gcnn', expected gcn|gcn_symmetric|
gps_zinc local_part=gin | local_part gin reads no bonds, but edges have some; expected
gps_zinc local_part=gine no_edge_features | no_edge_features: local_part gine reads bonds
gps_zinc local_part=pna towers=5 | not a multiple of 5 towers
gps_zinc activation_fn=tanh | unknown activation_fn 'tanh', expected relu|gelu
gps_zinc head_style=linear | unknown head_style 'linear', expected mlp|wide
gps_zinc attention=linear | unknown attention 'linear', expected plain|bias|relations
gps_zinc edge_sets=random_expander:5 | edge_sets and virtual_nodes only work with attention edges
gps_zinc attention=edges edge_sets=random_expander:0 | edge_sets random_expander_0: expected rand
gps_zinc attention=edges edge_sets=edge | edge_sets edge: expected random_expander:5, hamil
gps_zinc attention=edges virtual_nodes=-1 | virtual_nodes -1: expected 0 or more
gps_zinc attention=edges pair_encodings=random_walks | attention edges has no pairs
gps_zinc head_style=wide head_layers=-1 | head_layers -1: expected 0 or more
gps_zinc attention=bias multi_hop_max_dist=0 | max_steps 0
gps_zinc attention=relations max_hop=0 | max_hop 0
cgt_zinc pair_encodings=gaussians gaussian_types=all | gaussian_types 'all', expected none|ord
gcn length_kernels=4 | length_kernels: the layers read no vectors of edges
gt_zinc full_graph radius=4 | full_graph: all pairs are edges, without lengths
gps_zinc radius=-1 | radius -1
gps_zinc length_kernels=-1 | length_kernels -1
graphormer3d_small attention_cutoff=-1 | attention_cutoff -1
gps_zinc pair_encodings=gaussians gaussian_start=x | gaussian_start 'x', expected uniform|nor
cgt_zinc relative_encoding=rw | unknown relative encoding 'rw', expected rwse
cgt_zinc relative_steps=0 | relative_steps 0
cgt_zinc relative_dim=64 | width 64 of the relative encoding
cgt_zinc relative_dim=1 relative_encoding=both | width 1 of the relative
cgt_zinc relative_dim=3 pair_combine=sum | received 'sum'
cgt_zinc relative_dim=3 relative_encoding=none | and 'none'
cgt_zinc rings=some | unknown rings 'some'
cgt_zinc pair_combine=mul | unknown combination of pair features 'mul'
cgt_zinc attention_memory=small | unknown attention memory 'small'
cgt_zinc attention=color | unknown attention 'color', expected chrom
cgt_zinc output_projection=half | unknown output projection
cgt_zinc_rings max_ring_size=2 | ring needs max_ring_size in 3
gcn activation_fn=tanh | unknown activation_fn 'tanh', expected relu|gelu
gcn symmetric edge_features | edge_features has symmetric degrees already
pna activation_fn=gelu | activation_fn gelu: pna has its own
gcn norm=group | unknown norm 'group', expected batch|layer|none
gcn head_style=two | unknown head_style 'two'
gin encoder_ffn_embed_dim=0 | hidden_dim 0: expected 1 or more
grpe_tiny encoder_ffn_embed_dim=0 | ffn_dim 0
graphormer_slim encoder_ffn_embed_dim=0 | ffn_dim 0
pna towers=0 | not a multiple of 0 towers
grit_zinc walk_steps=0 | walk_steps 0
grit_zinc activation_fn=tanh | 'tanh', expected relu|gelu
grit_zinc head_style=wide | 'wide', expected mlp|linear
tokengt_base prenorm postnorm | --prenorm and --postnorm
tokengt_base lap_node_id orf_node_id | --lap-node-id and --orf-node-id
tokengt_base lap_node_id lap_node_id_k=1 | lap_node_id_k 1
tokengt_base orf_node_id orf_node_id_dim=0 | orf_node_id_dim 0
pna edge_dim=-1 | edge_dim -1: expected 0 or more
"""


def rows(text):
    return [line.split(" | ") for line in text.strip().splitlines()]


CASES = [(*first.split(" ", 1), message) for first, message in rows(OWN)]
CASES += [
    (arch, words, message)
    for words, message in rows(COMMON)
    for arch in SMALLEST
    if has_option(arch, words.partition("=")[0])
]
CASES += [
    (arch, f"{rate}=1.0", "dropout probability 1.0")
    for arch in SMALLEST
    for rate in rates_of(arch)
    if rate.endswith("dropout")
]


@pytest.mark.parametrize("arch, words, message", CASES)
def test_options(arch, words, message):
    with pytest.raises(ValueError) as error:
        tiny_model(arch, **options_of(words))
    assert message in str(error.value)


REAL_EDGES = FeatureSchema(1, [5], num_edge_features=2)


@pytest.mark.parametrize(
    "words, schema, message",
    [
        ("grpe_tiny", FeatureSchema(0, []), "node_dims is empty"),
        ("grpe_tiny", FeatureSchema(0), "num_node_features 0"),
        ("graphormer3d_small", FeatureSchema(2), "real numbers, expected elements"),
        (
            "grpe_tiny pair_encodings=gaussians gaussian_types=sum",
            FeatureSchema(2),
            "gaussian_types sum: nodes have numbers",
        ),
        ("graphormer_slim edge_type=aggregation", REAL_EDGES, "needs bond types"),
        ("gine radius=1.5", REAL_EDGES, "near atoms lack the real features"),
    ],
)
def test_schemas(words, schema, message):
    arch, _, options = words.partition(" ")
    with pytest.raises(ValueError, match=message):
        build_model(arch, schema, TARGETS, **options_of(options))


def test_targets():
    classes = TargetSchema.of(["a", "b"], kind="multiclass", num_classes=3)
    with pytest.raises(ValueError, match=r"2 targets of classes \(a, b\).*argmax"):
        build_model("grpe_small", SCHEMA, classes)
    with pytest.raises(ValueError, match="--clamp-max 0.1: the targets are classes"):
        tiny_model("gin", TargetSchema.of(["y"], kind="binary"), clamp_max=0.1)


def test_names():
    with pytest.raises(ValueError, match="unknown architecture 'gpre_small'"):
        build_model("gpre_small", SCHEMA, TARGETS)
    with pytest.raises(ValueError, match="has no option 'layers'"):
        build_model("grpe_small", SCHEMA, TARGETS, layers=3)
