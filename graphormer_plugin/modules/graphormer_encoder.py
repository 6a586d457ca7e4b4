"""Encoder of Graphormer (Ying et al. 2021, arXiv:2106.05234)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext.codes import MAX_HOPS
from graphormer_plugin.modules.attn_bias import (
    AttnBias,
    EdgeBias,
    GaussianDistance,
    PathEncoding,
    SpatialEncoding,
)
from graphormer_plugin.modules.biased_attention import BiasedAttention
from graphormer_plugin.modules.bond_encoder import (
    BondEncoder,
    EdgeEncoder,
    edge_encoder,
)
from graphormer_plugin.modules.choices import check_choice
from graphormer_plugin.modules.dropout import Dropout
from graphormer_plugin.modules.encoder import Encoder, joined_options
from graphormer_plugin.modules.encoder_layer import EncoderLayer
from graphormer_plugin.modules.init import init_transformer
from graphormer_plugin.modules.node_encoder import NodeEncoder, VirtualNode
from graphormer_plugin.modules.node_position import (
    CentralityEncoding,
    IncidentBonds,
    LaplacianEncoding,
    RandomWalkEncoding,
    position_vectors,
)
from graphormer_plugin.modules.pair_encodings import PairEncoding
from graphormer_plugin.modules.vocabulary import Vocabularies

NODE_RELATIONS = ("spatial", "laplacian", "none")
CENTRALITIES = ("directed", "undirected", "none")
EDGE_TYPES = ("multi_hop", "single_hop", "node", "aggregation", "none")


class GraphormerEncoder(Encoder):
    """Transformer over the nodes of a graph and, unless `virtual_node=False`, a virtual
    node, whose attention has a bias from structure, Ying et al. 2021.

    The bias is made once and shared by all layers. The rows of the paper's ablation
    (Table 5) are `node_relation`, `centrality` and `edge_type`; layers are the paper's
    (Eq. 8-9) or, with `pre_layernorm=False`, those of the released second version.

    Args:
        vocabularies: of nodes and bonds, e.g. `GraphStore.schema`.
        num_layers: number of layers.
        embed_dim: width D.
        ffn_dim: inner width of the feed-forward network.
        num_heads: attention heads H.
        node_relation: "spatial": a bias per distance (Eq. 6); "laplacian":
            `lap_pe_dim` eigenvectors in the node input; "none".
        centrality: "directed": vectors per in- and out-degree (Eq. 5); "undirected":
            one vector per degree; "none".
        edge_type: where bonds enter. "multi_hop": bias along the shortest path (Eq. 7);
            "single_hop": bias of the direct edge; "node": added to their nodes;
            "aggregation": added to the messages of neighbours; "none".
        multi_hop_max_dist: steps of a path that are read.
        spatial_pos_max: hops from which on pairs do not attend (see `AttnBias`).
        rwse_steps: number of random-walk return probabilities in the node input.
        gaussian_kernels: basis functions of the L2 distance of `pos`; 0: not used.
        node_table_size, bond_table_size: rows per column (see `NodeEncoder`,
            `BondEncoder`); None: the vocabularies.
        num_in_degree, num_out_degree, num_spatial, num_edge_dis: rows of the tables of
            degrees, distances and path steps (None: `multi_hop_max_dist`).
        lap_pe_dim: eigenvectors for "laplacian".
        dropout, act_dropout, activation, pre_layernorm: see `EncoderLayer`.
        attention_dropout, float32_softmax: see `BiasedAttention`.
        input_dropout: on the input of the first layer.
        embed_norm: LayerNorm on the input of the first layer (released second version).
        final_norm: LayerNorm after the last layer; None: with `pre_layernorm`, where
            nothing else normalises the sum of all layers.
        virtual_node: False: nodes only, T = N in place of N + 1.
        pair_encodings: further terms of the bias (see `make_pair_encodings`).
        depth_scaled_init: linear maps start from N(0, 0.02 / sqrt(num_layers)), as in
            the first release; else from N(0, 0.02), as in the second.

    Raises:
        ValueError: an unknown choice or a size out of range.

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(2, node_dims=[119, 5], bond_dims=[4])
        >>> encoder = GraphormerEncoder(
        ...     schema, num_layers=2, embed_dim=16, num_heads=4, edge_type="none"
        ... )
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
        num_layers: int = 12,
        embed_dim: int = 768,
        ffn_dim: int = 768,
        num_heads: int = 32,
        node_relation: str = "spatial",
        centrality: str = "directed",
        edge_type: str = "multi_hop",
        multi_hop_max_dist: int = 5,
        spatial_pos_max: int | None = None,
        rwse_steps: int = 0,
        gaussian_kernels: int = 0,
        node_table_size: int | None = None,
        bond_table_size: int | None = None,
        num_in_degree: int = 512,
        num_out_degree: int = 512,
        num_spatial: int = 512,
        num_edge_dis: int | None = None,
        lap_pe_dim: int = 8,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        act_dropout: float = 0.0,
        input_dropout: float = 0.0,
        activation: str = "gelu",
        float32_softmax: bool = False,
        pre_layernorm: bool = True,
        embed_norm: bool = False,
        final_norm: bool | None = None,
        virtual_node: bool = True,
        pair_encodings: Iterable[PairEncoding] = (),
        depth_scaled_init: bool = True,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers {num_layers}, expected at least 1")
        check_choice("node_relation", node_relation, NODE_RELATIONS)
        check_choice("centrality", centrality, CENTRALITIES)
        check_choice("edge_type", edge_type, EDGE_TYPES)
        self.embed_dim = embed_dim
        self.multi_hop_max_dist, self.lap_pe_dim = multi_hop_max_dist, lap_pe_dim
        self.node_encoder = NodeEncoder(vocabularies, embed_dim, node_table_size)
        self.virtual_node = VirtualNode(embed_dim) if virtual_node else None

        def bonds(width: int) -> BondEncoder | EdgeEncoder:
            return edge_encoder(vocabularies, width, bond_table_size)

        self.number_edges = bool(vocabularies.num_edge_features)
        if self.number_edges and edge_type == "aggregation":
            raise ValueError(
                "edge_type aggregation needs bond types, but edges have real features; "
                "expected multi_hop|single_hop|node|none"
            )

        # Encodings added to the node input, each reading its own batch fields.
        positions = nn.ModuleDict()
        if centrality != "none":
            out_rows = num_out_degree if centrality == "directed" else 0
            positions["centrality"] = CentralityEncoding(
                embed_dim, num_in_degree, out_rows
            )
        if node_relation == "laplacian":
            positions["laplacian"] = LaplacianEncoding(lap_pe_dim, embed_dim)
        if rwse_steps:
            positions["random_walk"] = RandomWalkEncoding(rwse_steps, embed_dim)
        if edge_type == "node":
            positions["bonds"] = IncidentBonds(bonds(embed_dim))
        self.positions = positions

        edges = None
        if edge_type == "multi_hop":
            edges = PathEncoding(bonds(num_heads), multi_hop_max_dist, num_edge_dis)
        elif edge_type == "single_hop":
            edges = EdgeBias(bonds(num_heads))
        self.attn_bias = AttnBias(
            num_heads,
            (
                SpatialEncoding(num_heads, num_spatial)
                if node_relation == "spatial"
                else None
            ),
            edges,
            GaussianDistance(num_heads, gaussian_kernels) if gaussian_kernels else None,
            spatial_pos_max,
            virtual_node,
            pair_encodings,
        )
        self.bond_messages = bonds(embed_dim) if edge_type == "aggregation" else None

        self.embed_norm = nn.LayerNorm(embed_dim) if embed_norm else nn.Identity()
        self.input_dropout = Dropout(input_dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(
                BiasedAttention(
                    embed_dim, num_heads, attention_dropout, float32_softmax
                ),
                embed_dim,
                ffn_dim,
                dropout,
                act_dropout,
                activation,
                pre_layernorm,
            )
            for _ in range(num_layers)
        )
        final_norm = pre_layernorm if final_norm is None else final_norm
        self.final_norm = nn.LayerNorm(embed_dim) if final_norm else nn.Identity()
        depth = num_layers if depth_scaled_init else 1
        self.apply(lambda module: init_transformer(module, depth))

    @property
    def required_fields(self) -> frozenset[str]:
        fields = {"x", "node_mask"} | self.attn_bias.required_fields
        for encoding in self.positions.values():
            fields |= set(encoding.fields)
        return frozenset(fields if self.bond_messages is None else fields | {"bond"})

    @property
    def field_options(self) -> dict[str, Any]:
        fields, options = self.required_fields, {}
        if "dist" in fields:
            options["max_dist"] = MAX_HOPS
        if "path_bond" in fields:
            options["path_length"] = self.multi_hop_max_dist
        if "lap_pe" in fields:
            options["lap_pe_dim"] = self.lap_pe_dim
        if self.number_edges:
            options["number_edges"] = True
        return joined_options(options, *self.attn_bias.further.field_options)

    @property
    def has_virtual_node(self) -> bool:
        return self.virtual_node is not None

    def modules_after_layers(self) -> list[nn.Module]:
        return [self.final_norm]

    def attention_modules(self) -> list[BiasedAttention]:
        return [layer.attention for layer in self.layers]

    def forward(
        self, batch: dict[str, Tensor], perturb: Tensor | None = None
    ) -> Tensor:
        """Encodes a batch.

        Args:
            batch: the fields of `required_fields`.
            perturb: [B, N, D], added to the encoded node features.

        Returns:
            [B, T, D]: the virtual node, then the nodes; padding is zero.
        """
        x = self.encode_nodes(batch)
        if perturb is not None:
            x = x + perturb.to(x.dtype)
        mask = batch["node_mask"]
        if self.virtual_node is not None:
            x, mask = self.virtual_node(x, mask)
        x = self.input_dropout(self.embed_norm(x))
        attn_bias = self.attn_bias(batch)
        messages = self.pair_messages(batch)
        for layer in self.layers:
            x = self.run_layer(layer, x, attn_bias, *messages)
        return self.final_norm(x) * mask.unsqueeze(-1)

    def encode_nodes(self, batch: dict[str, Tensor]) -> Tensor:
        """Sum of the features and encodings of each node, [B, N, D]."""
        x = self.node_encoder(batch["x"])
        for encoding in self.positions.values():
            x = x + position_vectors(encoding, batch)
        return x

    def pair_messages(self, batch: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """Bond of each pair [B, T, T] and the vectors [R, D] of the R bond types that
        occur; an empty tuple unless the edge type is "aggregation"."""
        if self.bond_messages is None:
            return ()
        bond = batch["bond"].int()
        if self.virtual_node is not None:
            bond = F.pad(bond, (1, 0, 1, 0))
        types, position = torch.unique(bond, return_inverse=True)
        return position, self.bond_messages()[types]
