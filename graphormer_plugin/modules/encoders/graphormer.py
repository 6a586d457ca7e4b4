"""Encoder of Graphormer (Ying et al. 2021, arXiv:2106.05234)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext.codes import MAX_HOPS
from graphormer_plugin.choices import check_choice
from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.encoders.base import Encoder, perturbed
from graphormer_plugin.modules.encodings.attn_bias import (
    AttnBias,
    EdgeBias,
    PathEncoding,
    SpatialEncoding,
)
from graphormer_plugin.modules.encodings.bond_encoder import IncidentBonds, edge_encoder
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder, VirtualNode
from graphormer_plugin.modules.encodings.pair_encodings import make_pair_terms
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import (
    VirtualNodeConfig,
    check_layers,
    option,
    redefault,
)
from graphormer_plugin.modules.layers.encoder_layer import encoder_layers
from graphormer_plugin.modules.layers.init import init_transformer
from graphormer_plugin.modules.layers.sparse import Batch

NODE_RELATIONS = ("spatial", "none")
EDGE_TYPES = ("multi_hop", "single_hop", "node", "aggregation", "none")


@dataclass
class GraphormerEncoderConfig(VirtualNodeConfig):
    """Options of `GraphormerEncoder`; the sizes are of `graphormer_paper_base`."""

    pre_layernorm: bool = option(
        False, "LayerNorm before each half of a layer (paper), not after"
    )
    encoder_normalize_before: bool = option(
        False, "LayerNorm on the embeddings (released code)"
    )
    activation_fn: str = option("gelu", "gelu, relu, or gelu_float32 (released code)")
    float32_softmax: bool = option(
        False, "softmax in float32 in any precision (released code)"
    )
    input_dropout: Optional[float] = option(
        None,
        "dropout on the embeddings, 0 <= p < 1 (default: as --dropout; the paper's "
        "presets have 0)",
    )
    node_relation: str = option(
        "spatial", "bias by distance (Eq. 6): spatial, or none (Table 5)"
    )
    node_encodings: str = redefault(VirtualNodeConfig, "node_encodings", "degrees")
    edge_type: str = option(
        "multi_hop",
        "where bonds enter: multi_hop (bias along the shortest path, Eq. 7), "
        "single_hop (bias of the direct edge), node, aggregation (messages of "
        "neighbours) or none (Table 5)",
    )
    multi_hop_max_dist: int = option(
        5, "edges of a path that are read, 1..253 (N of Eq. 7)"
    )
    spatial_pos_max: int = option(
        1024,
        "hops from which on pairs do not attend, >= 1; FAR counts as 254 and "
        "unreachable as 510 hops",
    )
    bond_table_size: int = option(
        0,
        "rows of the embedding table of every bond column; 0 takes the dataset's "
        "vocabulary, the published code has 512",
    )
    num_in_degree: int = option(
        512, "rows of in-degrees for --node-encodings degrees; larger share the last"
    )
    num_out_degree: int = option(
        512, "rows of out-degrees; 0: one table, for undirected graphs"
    )
    num_spatial: int = option(
        512,
        "rows of the distance table, >= 3: unreachable, 0 hops, 1 hop, ...; longer "
        "distances share the last row",
    )
    num_edge_dis: int = option(
        0,
        "rows of the table of path steps; 0 takes --multi-hop-max-dist, the published "
        "code has 128",
    )
    num_atoms: int = option(
        0,
        "rows of the tables of all node columns together (released code: 4608 for 9 "
        "columns); --node-table-size says it per column",
    )
    num_edges: int = option(
        0,
        "rows of the tables of all bond columns together (released code: 1536 for 3 "
        "columns); --bond-table-size says it per column",
    )
    apply_graphormer_init: bool = option(
        False,
        "linear maps start from N(0, 0.02), as in the second version; else from N(0, "
        "0.02 / sqrt(layers)), as in the first",
    )


class GraphormerEncoder(Encoder):
    """Transformer over the nodes of a graph and, unless `no_virtual_node`, a virtual
    node, whose attention has a bias from structure, Ying et al. 2021.

    The bias is made once and shared by all layers. The rows of the paper's ablation
    (Table 5) are `node_relation`, `node_encodings` and `edge_type`; layers are the paper's
    (Eq. 8-9) or, with `pre_layernorm=False`, the layers of the released second version.

    Args:
        final_norm: LayerNorm after the last layer; None: with `pre_layernorm`, which leaves
            the sum of all layers without a norm.

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(2, node_dims=[119, 5], bond_dims=[4])
        >>> config = GraphormerEncoderConfig(
        ...     encoder_layers=2,
        ...     encoder_embed_dim=16,
        ...     encoder_attention_heads=4,
        ...     edge_type="none",
        ... )
        >>> encoder = GraphormerEncoder(schema, config)
        >>> sorted(encoder.required_fields)
        ['dist', 'in_degree', 'node_mask', 'out_degree', 'x']
        >>> batch = {
        ...     "x": torch.tensor([[[6, 0], [8, 1]]]),
        ...     "node_mask": torch.tensor([[True, True]]),
        ...     "dist": torch.tensor([[[0, 1], [1, 0]]]),
        ...     "in_degree": torch.tensor([[1, 1]]),
        ...     "out_degree": torch.tensor([[1, 1]]),
        ... }
        >>> encoder(batch).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        config: GraphormerEncoderConfig,
        final_norm: bool | None = None,
    ) -> None:
        super().__init__()
        check_layers(config)
        check_choice("node_relation", config.node_relation, NODE_RELATIONS)
        check_choice("edge_type", config.edge_type, EDGE_TYPES)
        embed_dim = config.encoder_embed_dim
        num_heads = config.encoder_attention_heads
        self.embed_dim = embed_dim
        self.multi_hop_max_dist = config.multi_hop_max_dist
        node_rows = config.num_atoms // (len(vocabularies.node_dims or ()) or 1)
        bond_rows = config.num_edges // (len(vocabularies.bond_dims) or 1)
        bond_rows = bond_rows or config.bond_table_size
        self.node_encoder = NodeEncoder(
            vocabularies,
            config,
            node_rows,
            degrees=(config.num_in_degree, config.num_out_degree),
        )
        self.virtual_node = None if config.no_virtual_node else VirtualNode(embed_dim)

        bonds = partial(edge_encoder, vocabularies, table_size=bond_rows)
        sums_bonds = config.edge_type == "aggregation"
        self.number_edges = bool(vocabularies.num_edge_features)
        if self.number_edges and sums_bonds:
            raise ValueError(
                "edge_type aggregation needs bond types, but edges have real features; "
                "expected multi_hop|single_hop|node|none"
            )

        is_node = config.edge_type == "node"
        self.incident = IncidentBonds(bonds(embed_dim)) if is_node else None

        self.attn_bias = _attn_bias(vocabularies, config, partial(bonds, num_heads))
        self.bond_messages = bonds(embed_dim) if sums_bonds else None

        embed_norm = config.encoder_normalize_before
        dropout = config.input_dropout
        self.embed_norm = nn.LayerNorm(embed_dim) if embed_norm else nn.Identity()
        self.input_dropout = Dropout(config.dropout if dropout is None else dropout)
        self.layers = encoder_layers(
            config,
            lambda: BiasedAttention(
                embed_dim,
                num_heads,
                config.attention_dropout,
                config.float32_softmax,
            ),
            config.activation_fn,
            config.pre_layernorm,
        )
        final_norm = config.pre_layernorm if final_norm is None else final_norm
        self.final_norm = nn.LayerNorm(embed_dim) if final_norm else nn.Identity()
        depth = 1 if config.apply_graphormer_init else config.encoder_layers
        self.initialise = partial(init_transformer, num_layers=depth)  # heads use it
        self.apply(self.initialise)

    @property
    def fields(self) -> Iterable[str]:
        """See `Encoder`."""
        incident = () if self.incident is None else self.incident.fields
        messages = () if self.bond_messages is None else ("bond",)
        return *self.attn_bias.required_fields, *incident, *messages

    @property
    def options(self) -> dict[str, Any]:
        """See `Encoder`."""
        fields = self.required_fields
        options = {}
        if "dist" in fields:
            options["max_dist"] = MAX_HOPS
        if "path_bond" in fields:
            options["path_length"] = self.multi_hop_max_dist
        if self.number_edges:
            options |= {"number_edges": True, "distinct_edges": True}
        return options

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, T, D], the virtual node first; padding is zero."""
        pairs = self.attn_bias.further.inputs(batch)
        x = self.node_encoder(batch) + pairs.nodes
        if self.incident is not None:
            x = x + self.incident(*(batch[name] for name in self.incident.fields))
        x = perturbed(x, perturb)
        mask = batch["node_mask"]
        if self.virtual_node is not None:
            x, mask = self.virtual_node(x, mask)
        x = self.input_dropout(self.embed_norm(x))
        attn_bias = self.attn_bias(batch, pairs)
        if x.device.type != "cpu":
            attn_bias = BiasedAttention.aligned(attn_bias)
        messages = self.pair_messages(batch)
        for layer in self.layers:
            x = self.run_layer(layer, x, attn_bias, *messages)
        return self.final_norm(x) * mask.unsqueeze(-1)

    def pair_messages(self, batch: Batch) -> tuple[Tensor, ...]:
        """Bond of each pair [B, T, T] and the vectors [R, D] of the R bond types that
        occur; an empty tuple unless the edge type is "aggregation"."""
        if self.bond_messages is None:
            return ()
        bond = batch["bond"].long()
        if self.virtual_node is not None:
            bond = F.pad(bond, (1, 0, 1, 0))
        types, position = torch.unique(bond, return_inverse=True)
        return position, self.bond_messages()[types]


def _attn_bias(
    vocabularies: Vocabularies,
    config: GraphormerEncoderConfig,
    bonds: Callable[[], nn.Module],
) -> AttnBias:
    """Bias of pairs; ``bonds`` makes an encoder of edges with a column per head."""
    num_heads = config.encoder_attention_heads
    spatial = edges = None
    if config.edge_type == "multi_hop":
        steps = config.num_edge_dis or None
        edges = PathEncoding(bonds(), config.multi_hop_max_dist, steps)
    elif config.edge_type == "single_hop":
        edges = EdgeBias(bonds())
    if config.node_relation == "spatial":
        spatial = SpatialEncoding(num_heads, config.num_spatial)
    return AttnBias(
        num_heads,
        spatial,
        edges,
        config.spatial_pos_max,
        not config.no_virtual_node,
        make_pair_terms(config, vocabularies, num_heads),
    )
