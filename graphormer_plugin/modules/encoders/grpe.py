"""Encoder of GRPE (Park et al. 2022, arXiv:2201.12787)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext.codes import (
    RELATION_FAR,
    RELATION_SELF,
    RELATION_UNREACHABLE,
    RELATION_VIRTUAL,
    bond_relation,
    hop_relation,
)
from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.attention.formula import EdgeTerms, RelationTables
from graphormer_plugin.modules.attention.relative import RelativeAttention
from graphormer_plugin.modules.encoders.base import Encoder, perturbed
from graphormer_plugin.modules.encodings.bond_encoder import FeatureMap
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder, VirtualNode
from graphormer_plugin.modules.encodings.pair_encodings import make_pair_terms
from graphormer_plugin.modules.encodings.vocabulary import (
    RowLabels,
    Vocabularies,
    VocabularyModule,
)
from graphormer_plugin.modules.layers.encoder_config import (
    VirtualNodeConfig,
    check_layers,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import encoder_layers
from graphormer_plugin.modules.layers.graph_random import NOISE, uniform
from graphormer_plugin.modules.layers.sparse import (
    PAIR_FIELDS,
    Batch,
    scaled_pair_features,
)


class RelationEncoding(VocabularyModule):
    """Topology vectors P and edge vectors E of GRPE, joined into one table per
    relation.

    A pair of nodes has one relation: itself, a bond (distance 1), a distance, or the
    virtual node. Its vector is P[distance] + E[edge], so one look-up serves for both.

    Rows of P (max_hop + 4): hops 0..max_hop, far, unreachable, virtual.
    Rows of E (num_bond_types + 3): bond types, no edge, self, virtual.

    Args:
        max_hop: L, the largest distance with a vector of its own, at least 1.
        num_bond_types: joint bond types, at least 1.
        topology_attention: distances enter the scores,
            q_i . P^query[psi(i,j)] + k_j . P^key[psi(i,j)] (Eq. 6).
        edge_attention: bonds enter the scores,
            q_i . E^query[e_ij] + k_j . E^key[e_ij] (Eq. 7).
        encode_value: distances and bonds enter the values,
            v_j + P^value[psi(i,j)] + E^value[e_ij] in place of v_j (Eq. 9).
        num_edge_features: C, real features of edges. A linear map of them is added to
            the vectors of the only bond type, which are its bias.
    """

    def __init__(
        self,
        max_hop: int,
        num_bond_types: int,
        embed_dim: int,
        num_heads: int,
        topology_attention: bool = True,
        edge_attention: bool = True,
        encode_value: bool = True,
        num_edge_features: int = 0,
    ) -> None:
        super().__init__()
        check_least("max_hop", max_hop, 1)
        self.num_heads = num_heads
        self.embed_dim = embed_dim
        hops = max_hop + 4
        bonds = num_bond_types + 3
        self.topology_attention = (
            nn.Embedding(hops, 2 * embed_dim) if topology_attention else None
        )
        self.edge_attention = (
            nn.Embedding(bonds, 2 * embed_dim) if edge_attention else None
        )
        self.topology_value = nn.Embedding(hops, embed_dim) if encode_value else None
        self.edge_value = nn.Embedding(bonds, embed_dim) if encode_value else None

        self.feature_attention = self.feature_value = None
        if num_edge_features and edge_attention:
            self.feature_attention = FeatureMap(num_edge_features, 2 * embed_dim)
        if num_edge_features and encode_value:
            self.feature_value = FeatureMap(num_edge_features, embed_dim)

        # Relation -> row of P and row of E.
        far = max_hop + 1
        unreachable = max_hop + 2
        virtual = max_hop + 3
        no_edge, itself, to_virtual = (num_bond_types + i for i in range(3))
        rows = {
            RELATION_VIRTUAL: (virtual, to_virtual),
            RELATION_SELF: (0, itself),
            RELATION_UNREACHABLE: (unreachable, no_edge),
            RELATION_FAR: (far, no_edge),
        }
        for hop in range(2, max_hop + 1):
            rows[hop_relation(hop)] = hop, no_edge
        for bond in range(1, num_bond_types + 1):
            rows[bond_relation(bond, max_hop)] = 1, bond - 1
        rows = torch.tensor([rows[relation] for relation in range(len(rows))])
        self.register_buffer("rows", rows.T.contiguous(), persistent=False)

    def forward(self, relations: Tensor) -> RelationTables:
        """relations [R] int64 -> tables [H, R + 1, D / H], the last row zero."""
        topology, edge = self.rows[:, relations]
        weight = self._sum(
            self.topology_attention, topology, self.edge_attention, edge, 2
        )
        value = self._sum(self.topology_value, topology, self.edge_value, edge, 1)
        query, key = weight.chunk(2, dim=0)
        return RelationTables(query, key, value)

    def maps(self, scale: Tensor) -> list[Tensor | None]:
        """Linear maps of real features that were divided by a scale [C], for queries, keys
        and values, [C, H, D / H] each; None if the features do not enter."""
        attention = self.feature_attention
        value = self.feature_value
        maps = [None, None] if attention is None else [*attention.weight.chunk(2)]
        maps.append(None if value is None else value.weight)
        scaled = (
            None if weight is None else (scale.unsqueeze(1) * weight.T).to(weight.dtype)
            for weight in maps
        )
        heads = (self.num_heads, -1)
        return [None if map_ is None else map_.unflatten(1, heads) for map_ in scaled]

    def _sum(
        self,
        topology_table: nn.Embedding | None,
        topology: Tensor,
        edge_table: nn.Embedding | None,
        edge: Tensor,
        width: int,
    ) -> Tensor:
        """-> [width * H, R + 1, D / H]; an absent table counts as zero."""
        used = [
            table(rows)
            for table, rows in ((topology_table, topology), (edge_table, edge))
            if table is not None
        ]
        if used:
            joint = F.pad(sum(used), (0, 0, 0, 1))
        else:
            joint = torch.zeros(
                topology.shape[0] + 1, width * self.embed_dim, device=topology.device
            )
        heads = width * self.num_heads
        return joint.view(joint.shape[0], heads, -1).transpose(0, 1).contiguous()

    def row_labels(
        self, vocabularies: Vocabularies, weights: dict[str, Tensor]
    ) -> dict[str, RowLabels]:
        """Bond columns of each row of E, for weights that were trained with these
        vocabularies (see `graphormer_plugin.modules.encodings.vocabulary`)."""
        bonds = [tuple(row) for row in vocabularies.bond_columns()[1:].tolist()]
        if vocabularies.bond_table is not None:
            bonds[-1] = "unknown"
        labels = RowLabels(0, [*bonds, "no edge", "self", "virtual"])
        names = ("edge_attention.weight", "edge_value.weight")
        return {name: labels for name in names if name in weights}


@dataclass
class GRPEEncoderConfig(VirtualNodeConfig):
    """Options of `GRPEEncoder`; the sizes are of `grpe_standard`."""

    max_hop: int = option(5, "largest distance with a vector of its own, 1 to 253 (L)")
    perturb_noise: float = option(
        0.0, "uniform noise within +-X on node vectors in training", run_only=True
    )
    independent_encodings: bool = option(
        False, "own topology and edge vectors in every layer (Table 10)"
    )
    no_topology_attention: bool = option(
        False, "no distances in the scores (Eq. 6, Table 9)"
    )
    no_edge_attention: bool = option(False, "no bonds in the scores (Eq. 7, Table 9)")
    no_graph_encoded_value: bool = option(
        False, "no distances and bonds in the values (Eq. 9, Table 9)"
    )
    key_from_row: bool = option(
        False,
        "the key term reads the key of the attending node, as the released code does; "
        "for checkpoints imported from it",
    )
    virtual_is_self: bool = option(
        False,
        "the virtual node has the relation of a node to itself, as in the released "
        "code; for checkpoints imported from it",
    )


class GRPEEncoder(Encoder):
    """Graph Transformer with relative positional encoding, Park et al. 2022.

    Pre-LayerNorm layers over the nodes and, unless `no_virtual_node`, a virtual node at
    position 0. Its relation to every node has a vector of its own, and it takes no part in
    shortest paths. The batch's `relation_index` has the same `max_hop`.

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(2, node_dims=[119, 5], bond_dims=[4])
        >>> config = GRPEEncoderConfig(
        ...     encoder_layers=2, encoder_embed_dim=16, encoder_attention_heads=4
        ... )
        >>> encoder = GRPEEncoder(schema, config)
        >>> batch = {
        ...     "x": torch.tensor([[[6, 0], [8, 1]]]),
        ...     "node_mask": torch.tensor([[True, True]]),
        ...     # positions in `relations`: self, and a bond of type 1
        ...     "relation_index": torch.tensor([[[1, 2], [2, 1]]]),
        ...     # virtual, self, and what codes.bond_relation gives for that bond
        ...     "relations": torch.tensor([0, 1, 8]),
        ... }
        >>> encoder(batch).shape
        torch.Size([1, 3, 16])
    """

    def __init__(self, vocabularies: Vocabularies, config: GRPEEncoderConfig) -> None:
        super().__init__()
        check_layers(config)
        noise = config.perturb_noise
        embed_dim = config.encoder_embed_dim
        check_least("perturb_noise", noise, 0)
        if config.virtual_is_self and config.no_virtual_node:
            raise ValueError("virtual_is_self needs a virtual node")
        self.embed_dim = embed_dim
        self.max_hop = config.max_hop
        self.perturb_noise = noise
        self.virtual_is_self = config.virtual_is_self
        self.node_encoder = NodeEncoder(vocabularies, config)
        self.virtual_node = None if config.no_virtual_node else VirtualNode(embed_dim)
        # All other weights start as torch's layers do, embeddings N(0, 1).
        if self.virtual_node is not None:
            nn.init.zeros_(self.virtual_node.embedding.weight)
        heads = config.encoder_attention_heads
        self.encodings = nn.ModuleList(
            RelationEncoding(
                config.max_hop,
                vocabularies.num_bond_types,
                embed_dim,
                heads,
                topology_attention=not config.no_topology_attention,
                edge_attention=not config.no_edge_attention,
                encode_value=not config.no_graph_encoded_value,
                num_edge_features=vocabularies.num_edge_features,
            )
            for _ in range(config.encoder_layers if config.independent_encodings else 1)
        )
        self.layers = encoder_layers(
            config,
            lambda: RelativeAttention(
                embed_dim, heads, config.attention_dropout, config.key_from_row
            ),
        )
        self.final_norm = nn.LayerNorm(embed_dim)
        self.pair_terms = make_pair_terms(config, vocabularies, heads)

    @property
    def fields(self) -> Iterable[str]:
        """See `Encoder`."""
        edges = PAIR_FIELDS if self.reads_edge_features else ()
        return "relation_index", "relations", *edges

    @property
    def options(self) -> dict[str, Any]:
        """See `Encoder`."""
        return {"max_hop": self.max_hop, "distinct_edges": self.reads_edge_features}

    @property
    def reads_edge_features(self) -> bool:
        """Whether edges have real features."""
        encoding = self.encodings[0]
        maps = (encoding.feature_attention, encoding.feature_value)
        return any(map_ is not None for map_ in maps)

    def layer_modules(self, number: int) -> list[nn.Module]:
        """See `Encoder`."""
        of_layers = self.encodings if len(self.encodings) > 1 else ()
        return [self.layers[number], *of_layers[number : number + 1]]

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, T, D], the virtual node first; padding is zero."""
        pairs = self.pair_terms.inputs(batch)
        x = perturbed(self.node_encoder(batch) + pairs.nodes, perturb)
        if self.training and self.perturb_noise:
            noise = uniform(batch.get("seed"), x.shape, NOISE, x)
            x = x + self.perturb_noise * noise
        mask = batch["node_mask"]
        relation_index = batch["relation_index"].long()
        if self.virtual_node is not None:
            x, mask = self.virtual_node(x, mask)
            relation_index = F.pad(relation_index, (1, 0, 1, 0))  # position 0: virtual
        tables = [encoding(batch["relations"]) for encoding in self.encodings]
        forbidden = tables[0].query.shape[1] - 1  # the last row
        # [B, T, T]
        relation_index = relation_index.masked_fill(~mask.unsqueeze(1), forbidden)
        if self.virtual_is_self:  # the relation of a node with itself
            relation_index[:, 0, 0] = batch["relation_index"][:, 0, 0]
        before = int(self.has_virtual_node)
        attn_bias = self.pair_terms.attn_bias(pairs, before)
        further = [attn_bias for _ in tables]
        if self.reads_edge_features:
            features, scale = scaled_pair_features(batch, x.dtype)  # [B, N, N, C]
            features = F.pad(features, (0, 0, before, 0, before, 0))
            further = [
                (*(attn_bias or (None,)), EdgeTerms(features, *encoding.maps(scale)))
                for encoding in self.encodings
            ]
        repeats = len(self.layers) // len(tables)
        for layer, layer_tables, terms in zip(
            self.layers, tables * repeats, further * repeats
        ):
            x = self.run_layer(layer, x, layer_tables, relation_index, *terms)
        return self.final_norm(x) * mask.unsqueeze(-1)
