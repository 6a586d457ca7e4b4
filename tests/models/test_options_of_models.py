"""Where an option arrives. A row is an architecture, an option, and the part of the model
that has its value, or other text after ->; of fields those that come or go."""

import pytest

from support.architectures import make_batch, options_of, tiny_model

ROWS = """
grpe_tiny no_topology_attention | encoder.encodings.0.topology_attention -> None
grpe_tiny no_edge_attention | encoder.encodings.0.edge_attention -> None
grpe_tiny no_graph_encoded_value | encoder.encodings.0.topology_value -> None
grpe_tiny no_graph_encoded_value | encoder.encodings.0.edge_value -> None
grpe_tiny max_hop=9 | encoder.encodings.0.topology_attention.num_embeddings -> 13
grpe_tiny max_hop=9 | batch_spec.max_hop
grpe_tiny perturb_noise=0.2 | encoder.perturb_noise
grpe_tiny independent_encodings | encoder.encodings.1.topology_value -> ...
grpe_tiny dropout=0.3 | encoder.layers.0.dropout.p
grpe_tiny attention_dropout=0.3 | encoder.layers.0.attention.dropout
grpe_tiny act_dropout=0.3 | encoder.layers.0.act_dropout.p
grpe_tiny encoder_ffn_embed_dim=24 | encoder.layers.0.fc1.out_features
grpe_tiny encoder_attention_heads=2 | encoder.layers.0.attention.num_heads

cgt_zinc dropout=0.3 | encoder.layers.0.dropout.p
cgt_zinc act_dropout=0.3 | encoder.layers.0.act_dropout.p
cgt_zinc attention_dropout=0.3 | encoder.layers.0.attention.dropout.p
cgt_zinc node_dropout=0.3 | encoder.layers.0.attention.node_dropout.p
cgt_zinc channel_dropout=0.3 | encoder.layers.0.attention.channel_dropout.p
cgt_zinc attention=mono | encoder.projections.0.att.out_features -> 4
cgt_zinc attention=additive | encoder.layers.1.attention.kind
cgt_zinc output_projection=low_rank | encoder.layers.0.attention.out_proj.0.out_features -> 16
cgt_zinc output_projection=none | encoder.layers.0.attention.out_proj -> Identity()
cgt_zinc no_edge_values | encoder.projections.0.val -> None
cgt_zinc neighbours_only | encoder.pairs.forbidden.2 -> tensor(True)
cgt_zinc relative_encoding=spde | encoder.pairs.walks -> None
cgt_zinc relative_encoding=both | encoder.pairs.max_hop -> 20
cgt_zinc relative_encoding=both | batch_spec.max_hop -> 20
cgt_zinc relative_steps=7 | encoder.pairs.walks.in_features
cgt_zinc relative_dim=5 | encoder.pairs.walks.out_features
cgt_zinc pair_combine=sum | encoder.pairs.walks.out_features -> 64
cgt_zinc rings=additive | encoder.pairs.ring.embedding_dim -> 32
cgt_zinc rings=categorical | encoder.pairs.bonds.1.embedding.embedding_dim -> 32
cgt_zinc node_encodings=random_walks:7 | encoder.node_encoder.encodings.0.encoding.num_features -> 7
cgt_zinc node_encoding_dim=7 | encoder.node_encoder.encodings.0.projection.out_features
cgt_zinc encoder_ffn_embed_dim=9 | encoder.layers.0.fc1.out_features
cgt_zinc own_edge_encoding | encoder.projections.1.att.out_features -> 64
cgt_zinc activation_fn=gelu | encoder.layers.0.activation -> ...
cgt_zinc activation_fn=gelu | head.hidden.1 -> GELU(approximate='none')
cgt_zinc attention_memory=lean | encoder.attention_memory
cgt_zinc rings=additive | batch_spec.fields -> ring
cgt_zinc rings=additive max_ring_size=9 | batch_spec.max_ring_size -> 9

graphormer3d_small gaussian_start=even | encoder.kernels.kernels.floor -> 0.01
graphormer3d_small attention_cutoff=5 | encoder.cutoff
graphormer3d_small head_dropout=0.3 | head.dropout.p

gps_zinc dropout=0.3 | encoder.layers.0.dropout.p
gps_zinc dropout=0.3 | encoder.layers.0.local.dropout.p
gps_zinc act_dropout=0.3 | encoder.layers.0.act_dropout.p
gps_zinc attention_dropout=0.3 | encoder.layers.0.attention.dropout.p
gps_zinc encoder_ffn_embed_dim=0 | encoder.layers.0.fc1.out_features -> 128
gps_zinc attention=bias | batch_spec.path_length -> 5
gps_zinc attention=relations | encoder.relations.topology_value.num_embeddings -> 9
gps_zinc pair_encodings=gaussians | encoder.attn_bias.further.0.projection.in_features -> 128
gps_zinc node_encodings=random_walks:7 | encoder.node_encoder.encodings.0.encoding.num_features -> 7
gps_zinc node_encoding_dim=7 | encoder.node_encoder.encodings.0.projection.out_features
gps_zinc node_encodings=laplacian:7 | batch_spec.lap_pe_dim -> 7
gps_zinc attention=bias multi_hop_max_dist=3 | batch_spec.path_length -> 3
gps_zinc attention=relations max_hop=3 | batch_spec.max_hop -> 3
gps_zinc local_part=pna towers=8 | encoder.layers.0.local.convolution.num_towers -> 8
gps_zinc local_part=pna | encoder.layers.0.local.convolution.num_towers -> 4
gps_zinc readout=max | readout
gps_zinc node_encodings=none | batch_spec.fields -> bond
gps_zinc node_encodings=laplacian | batch_spec.fields -> bond lap_pe
gps_zinc attention=bias | batch_spec.fields -> dist path_bond
gps_zinc attention=relations | batch_spec.fields -> relation_index relations
gps_zinc pair_encodings=gaussians | batch_spec.fields -> pos

graphormer_paper_slim edge_type=single_hop | batch_spec.fields -> bond path_bond
graphormer_paper_slim edge_type=single_hop | batch_spec.path_length -> 0
graphormer_paper_slim edge_type=none | batch_spec.fields -> path_bond
graphormer_paper_slim node_encodings=degrees:512:0 | batch_spec.fields -> out_degree
graphormer_paper_slim node_relation=none edge_type=node | batch_spec.fields -> bond dist path_bond
graphormer_paper_slim node_relation=none edge_type=none | batch_spec.max_dist -> None
graphormer_paper_slim node_encodings=laplacian | batch_spec.fields -> in_degree lap_pe out_degree
graphormer_paper_slim pair_encodings=gaussians | batch_spec.fields -> pos
gps_zinc head_style=wide | head -> ...
gps_zinc activation_fn=gelu | encoder.layers.0.activation -> ...
gps_peptides activation_fn=gelu | encoder.layers.0.local.activation -> ...
gps_peptides activation_fn=gelu | encoder.layers.0.local.convolution.activation -> ...

gt_zinc node_encodings=degrees:37:0 | batch_spec.fields -> in_degree lap_pe
gt_zinc node_encodings=wl | batch_spec.fields -> lap_pe wl_role
gt_zinc node_encodings=none | batch_spec.fields -> lap_pe
gt_zinc full_graph | batch_spec.fields -> edge_bond edge_index
gt_zinc no_edge_features | batch_spec.fields -> edge_bond
gt_zinc dropout=0.25 | encoder.layers.0.nodes.dropout.p
gt_zinc act_dropout=0.25 | encoder.layers.1.edges.act_dropout.p
gt_zinc attention_dropout=0.25 | encoder.layers.0.nodes.attention.dropout.p
gt_zinc input_dropout=0.25 | encoder.input_dropout.p

gcn dropout=0.3 | encoder.layers.0.dropout.p
gcn norm=layer | encoder.layers.0.norm -> ...
gcn linear_last_layer | encoder.layers.1.activation -> None
gcn symmetric | encoder.layers.0.convolution.conv.add_self_loops -> True
gcn activation_fn=gelu | encoder.layers.0.activation -> ...
gcn head_style=wide | head -> ...
gcn edge_features | batch_spec.fields -> ...
gcn no_residual | encoder.layers.0.residual -> False
gcn readout=max | readout
gcn head_style=linear | head -> ...
gcn node_table_size=9 | encoder.node_encoder.first_row.1 -> tensor(9)
gin norm=none | encoder.layers.0.convolution.conv.nn.1 -> Identity()
gin head_style=mlp | head -> ...
gin encoder_ffn_embed_dim=9 | encoder.layers.0.convolution.conv.nn.0.out_features
gat encoder_attention_heads=2 | encoder.layers.0.convolution.conv.heads
gat attention_dropout=0.3 | encoder.layers.0.convolution.conv.dropout
gat edge_features | batch_spec.fields -> ...
gatedgcn node_encodings=laplacian:3 | encoder.node_encoder.encodings.0.projection.in_features -> 3
gatedgcn norm=none | encoder.layers.0.convolution.norm -> Identity()
gatedgcn dropout=0.3 | encoder.layers.0.convolution.dropout.p
gatedgcn no_residual | encoder.layers.0.convolution.residual -> False
pna norm=none | encoder.layers.0.convolution.norm -> Identity()
pna dropout=0.3 | encoder.layers.0.convolution.dropout.p
pna edge_dim=0 | batch_spec.fields -> ...
pna towers=2 | encoder.layers.0.convolution.num_towers
pna_simple dropout=0.3 | encoder.layers.0.dropout.p
mpnn edge_dim=7 | encoder.layers.0.convolution.edge -> ...
"""


def part(model, path):
    """A part as text, or the fields of a batch; None where there is no such part."""
    for name in path.split("."):
        try:
            model = model[int(name)] if name.isdigit() else getattr(model, name)
        except (AttributeError, IndexError, TypeError):
            return "None"
    return model if isinstance(model, frozenset) else str(model)


@pytest.mark.parametrize("row", [*filter(None, ROWS.splitlines())])
def test_an_option_reaches_its_part(row):
    words, place = row.split(" | ")
    (arch, text), (path, _, expected) = words.split(" ", 1), place.partition(" -> ")
    plain, model = tiny_model(arch), tiny_model(arch, **options_of(text))
    found, before = part(model, path), part(plain, path)
    assert found != before
    if isinstance(found, frozenset):  # fields that one of both reads
        found = " ".join(sorted(found ^ before))
    assert expected == "..." or found == (expected or text.partition("=")[2])
    assert model(make_batch(model, range(6))).isfinite().all()
