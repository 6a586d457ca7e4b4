"""Encoder of GPS: layers of message passing and attention (GraphGPS, rampasek/GraphGPS), also
along edges alone (Exphormer, hamed1375/Exphormer)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cython_ext.codes import MAX_HOPS
from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.attention.edge import GivenEdgeAttention, GivenEdges
from graphormer_plugin.modules.attention.formula import EdgeTerms
from graphormer_plugin.modules.attention.relative import RelativeAttention
from graphormer_plugin.modules.encoders.base import SparseEncoder, perturbed
from graphormer_plugin.modules.encoders.grpe import RelationEncoding
from graphormer_plugin.modules.encoders.message_passing import (
    ACTIVATION_NAMES,
    CONVOLUTIONS,
    MessagePassingLayer,
)
from graphormer_plugin.modules.encodings.attn_bias import (
    AttnBias,
    PathEncoding,
    SpatialEncoding,
)
from graphormer_plugin.modules.encodings.bond_encoder import edge_encoder
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder
from graphormer_plugin.modules.encodings.pair_encodings import (
    PairInput,
    make_pair_terms,
)
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import NORMS
from graphormer_plugin.modules.layers.encoder_config import (
    PairTransformerConfig,
    SpatialEdgesConfig,
    check_layers,
    defaults,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import EncoderLayer
from graphormer_plugin.modules.layers.sparse import (
    PAIR_FIELDS,
    Batch,
    NodeLayout,
    scaled_pair_features,
)
from graphormer_plugin.modules.message_passing.convolutions import Edges, LayerSettings
from graphormer_plugin.modules.message_passing.edge_input import EdgeInput

ATTENTIONS = {
    "plain": BiasedAttention,
    "bias": BiasedAttention,
    "relations": RelativeAttention,
    "edges": GivenEdgeAttention,
}
NORM_NAMES = ("batch", "layer")


class GPSLayer(EncoderLayer):
    """h' = norm(l) + norm(h + dropout(A(h))) and h'' = norm(h' + FFN(h')) with the local part
    l = h + dropout(MPNN(h, e)), the layer of GraphGPS. GatedGCN has an activation and a norm
    before its residual, l = h + dropout(activation(norm(MPNN(h, e)))), and updates e.

    Args:
        local: l of nodes [S, D], None and edges.
        attention: see `EncoderLayer`.
        **layer: arguments of `EncoderLayer`.
    """

    def __init__(
        self,
        local: MessagePassingLayer,
        attention: nn.Module,
        embed_dim: int,
        **layer: Any,
    ) -> None:
        super().__init__(attention, embed_dim, pre_layernorm=False, **layer)
        self.local = local
        self.local_norm = layer["norm"](embed_dim)

    def forward(
        self, x: Tensor, edges: Edges, layout: NodeLayout, *attention_args: Any
    ) -> tuple[Tensor, Edges]:
        """Nodes x [S, D] of all graphs, edges, and arguments of the attention for padded
        nodes, or for nodes and virtual nodes -> nodes and edges after this layer."""
        local, _, edges = self.local(x, None, edges)
        if edges.virtual is None:
            mixed = layout.flatten(self.attention(layout.pad(x), *attention_args))
        else:
            states = self.attention(torch.cat([x, edges.virtual]), *attention_args)
            mixed = states[: x.shape[0]]
            edges = edges._replace(virtual=states[x.shape[0] :])
        mixed = self.attention_norm(x + self.dropout(mixed))
        x = self.local_norm(local) + mixed
        return self.ffn_norm(x + self.feed_forward(x)), edges


@dataclass
@defaults(
    encoder_layers=10,
    encoder_embed_dim=64,
    encoder_attention_heads=4,
    dropout=0.0,
    attention_dropout=0.5,
    node_encodings="random_walks:20",
    node_encoding_dim=28,
)
class GPSEncoderConfig(PairTransformerConfig, SpatialEdgesConfig):
    """Options of `GPSEncoder`. The defaults are those of `gps_zinc`."""

    encoder_ffn_embed_dim: int = option(
        0, "inner width of the feed-forward networks; 0: twice the width"
    )
    local_part: str = option(
        "gine", f"the convolution over edges: {', '.join(CONVOLUTIONS)}"
    )
    no_edge_features: bool = option(
        False, "a local part that reads no bonds, also where edges have some"
    )
    towers: int = option(
        4, "independent parts of pna and mpnn in a layer, divide the width"
    )
    attention: str = option(
        "plain",
        "plain, bias (distances and bonds along paths, as Graphormer), relations (as GRPE) "
        "or edges (along bonds and --edge-sets only, as Exphormer)",
    )
    edge_sets: str = option(
        "",
        "edges beside the bonds that --attention edges runs along, comma-separated: "
        "random_expander:5 or hamiltonian_expander:5 (degree), or fields per edge that a "
        "module in --user-dir registers",
    )
    virtual_nodes: int = option(
        0,
        "virtual nodes of --attention edges, which all nodes of a graph read and write",
    )
    multi_hop_max_dist: int = option(
        5, "edges of a path that --attention bias reads, 1..253"
    )
    max_hop: int = option(
        5, "largest distance of --attention relations with a vector of its own, 1..253"
    )
    norm: str = option("batch", "normalisation: batch or layer")
    activation_fn: str = option(
        "relu",
        "activation of the feed-forward networks and of gatedgcn: relu or gelu; or silu, "
        "of gine and the head as well, for smooth forces",
    )


class GPSEncoder(SparseEncoder):
    """Layers of message passing and attention. The output has no virtual nodes; those of
    attention along edges have states beside it, which no norm or feed-forward network changes.

    The vectors of bonds are computed once and read by all layers. GatedGCN's last layer
    leaves the edges as they are, because nothing reads them.

    Args:
        vocabularies: values of nodes and bonds, e.g. `GraphStore.schema`.
        mean_log_degree: mean of log(d + 1) over the training nodes, None without data; called
            for local parts that scale by degree.
        edge_input: makes the edges of a batch; None: `EdgeInput` of the config.

    Raises:
        ValueError: neither the local part nor the attention reads the bonds.
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        config: GPSEncoderConfig,
        mean_log_degree: Callable[[], float | None] = lambda: None,
        edge_input: EdgeInput | None = None,
    ) -> None:
        super().__init__()
        check_layers(config)
        check_choice("local_part", config.local_part, CONVOLUTIONS)
        check_choice("attention", config.attention, ATTENTIONS)
        check_choice("norm", config.norm, NORM_NAMES)
        check_choice("activation_fn", config.activation_fn, ACTIVATION_NAMES)
        embed_dim = config.encoder_embed_dim
        owner = CONVOLUTIONS[config.local_part].bonds
        self.sparse = config.attention == "edges"
        self.edge_sets = edge_set_fields(config)
        if self.sparse and owner == "none":
            owner = "state"  # of the attention alone
        self.real = bool(vocabularies.num_edge_features)
        _check_bonds(config, vocabularies)
        self.embed_dim = embed_dim
        self.max_hop = config.max_hop
        self.multi_hop_max_dist = config.multi_hop_max_dist

        self.node_encoder = NodeEncoder(vocabularies, config)

        # The encoder has the vectors of bonds also for layers that have their own elsewhere.
        self.edge_input = edge_input or EdgeInput(
            "state" if owner == "layer" else owner, vocabularies, config
        )
        self.bonds = None
        if owner != "none":
            kernels = config.length_kernels
            self.bonds = edge_encoder(
                vocabularies, embed_dim, combine="sum", num_kernels=kernels
            )

        self._add_pair_terms(vocabularies, config)
        if self.sparse:
            virtual = config.virtual_nodes
            self.virtual = nn.Parameter(torch.randn(virtual, embed_dim))
            # Edge sets, and edges into and out of each virtual node.
            kinds = len(self.edge_sets) + 2 * virtual
            self.edge_kinds = nn.Parameter(torch.randn(kinds, embed_dim))
        options = _convolution_options(config, mean_log_degree)
        last = config.encoder_layers - 1
        self.layers = nn.ModuleList(
            self._layer(config, index == last, options)
            for index in range(config.encoder_layers)
        )

    def _add_pair_terms(
        self, vocabularies: Vocabularies, config: GPSEncoderConfig
    ) -> None:
        """Make the terms of pairs that the attention reads."""
        num_heads = config.encoder_attention_heads
        spatial = paths = None
        self.relations = None
        if config.attention == "bias":
            spatial = SpatialEncoding(num_heads)
            paths = PathEncoding(
                edge_encoder(vocabularies, num_heads), config.multi_hop_max_dist
            )
        elif config.attention == "relations":
            self.relations = RelationEncoding(
                config.max_hop,
                vocabularies.num_bond_types,
                self.embed_dim,
                num_heads,
                num_edge_features=vocabularies.num_edge_features,
            )
        further = make_pair_terms(config, vocabularies, num_heads)
        self.attn_bias = AttnBias(
            num_heads, spatial, paths, virtual_node=False, further=further
        )

    def _layer(
        self, config: GPSEncoderConfig, last: bool, options: dict[str, Any]
    ) -> GPSLayer:
        """A layer, with the options of its convolution."""
        dim = config.encoder_embed_dim
        convolution = CONVOLUTIONS[config.local_part]
        # A convolution with vectors of edges of its own has norm, activation and residual;
        # the others are bare.
        whole = convolution.bonds == "state"
        smooth = config.activation_fn == "silu" and config.local_part == "gine"
        settings = LayerSettings(
            dim,
            norm=config.norm if whole else "none",
            dropout=config.dropout,
            last=last and whole,
            edge_vectors=convolution.bonds in ("layer", "state"),
            activation=config.activation_fn if whole or smooth else "",
        )
        local = MessagePassingLayer(
            config.local_part,
            settings,
            linear=not whole,
            **options,
        )
        kind = ATTENTIONS[config.attention]
        return GPSLayer(
            local,
            kind(dim, config.encoder_attention_heads, config.attention_dropout),
            dim,
            ffn_dim=config.encoder_ffn_embed_dim or 2 * dim,
            dropout=config.dropout,
            act_dropout=config.act_dropout,
            activation=config.activation_fn,
            norm=NORMS[config.norm],
        )

    @property
    def fields(self) -> tuple[str, ...]:
        """See `Encoder`."""
        fields = "node_graph", *self.edge_input.fields, *self.attn_bias.required_fields
        fields += tuple(f"{name}_index" for name in self.edge_sets)
        if self.relations is not None:
            fields += ("relation_index", "relations")
            fields += tuple(PAIR_FIELDS) if self.real else ()
        return fields

    @property
    def options(self) -> dict[str, Any]:
        """See `Encoder`."""
        options: dict[str, Any] = {}
        fields = self.required_fields
        if "dist" in fields:
            options["max_dist"] = MAX_HOPS
        if "path_bond" in fields:
            options["path_length"] = self.multi_hop_max_dist
            if self.real:
                options |= {"number_edges": True, "distinct_edges": True}
        if self.relations is not None:
            options |= {"max_hop": self.max_hop, "distinct_edges": self.real}
        return options

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, N, D]; padding is zero."""
        layout = NodeLayout.of(batch)
        encoded = self.attn_bias.further.inputs(batch)
        x = perturbed(self.node_encoder(batch) + encoded.nodes, perturb)
        x = layout.flatten(x)
        edges = self.edge_input(batch, self.bonds)
        if self.sparse:
            edges, given = self.given_edges(batch, edges, layout)
            pairs: tuple[Any, ...] = (given,)
        else:
            pairs = self.pair_arguments(batch, encoded, x.dtype)
        for layer in self.layers:
            x, edges = self.run_layer(layer, x, edges, layout, *pairs)
        return layout.pad(x)

    def pair_arguments(
        self, batch: Batch, encoded: PairInput, dtype: torch.dtype
    ) -> tuple[Any, ...]:
        """What the attention of every layer takes beside the nodes."""
        attn_bias = self.attn_bias(batch, encoded)
        if attn_bias.device.type != "cpu":
            attn_bias = BiasedAttention.aligned(attn_bias)
        if self.relations is None:
            return (attn_bias,)
        tables = self.relations(batch["relations"])
        forbidden = tables.query.shape[1] - 1  # the last row
        index = batch["relation_index"].long()
        index = index.masked_fill(~batch["node_mask"].unsqueeze(1), forbidden)
        if not self.real:
            return tables, index, attn_bias
        features, scale = scaled_pair_features(batch, dtype)
        edges = EdgeTerms(features, *self.relations.maps(scale))
        return tables, index, attn_bias, edges

    def given_edges(
        self, batch: Batch, edges: Edges, layout: NodeLayout
    ) -> tuple[Edges, GivenEdges]:
        """Edges with the first states of virtual nodes, and what the attention runs along."""
        graph = layout.node_graph
        vectors = self.bonds(*edges.features)
        # Exported programs have any number of nodes and edges, unlike `len`.
        S = graph.shape[0]
        R = vectors.shape[0]
        B = layout.num_graphs
        parts = [edges.index, *(batch[f"{name}_index"] for name in self.edge_sets)]
        nodes = torch.arange(S, device=graph.device)
        for number in range(len(self.virtual)):
            joined = torch.stack([nodes, S + number * B + graph])
            parts += [joined, joined.flip(0)]
        kinds = [edges.bond.long()]
        for number, part in enumerate(parts[1:]):
            kinds.append(part.new_full(part.shape[1:], R + number))
        vectors = torch.cat([vectors, self.edge_kinds])
        given = GivenEdges(torch.cat(parts, 1), torch.cat(kinds), vectors, S)
        return edges._replace(virtual=self.virtual.repeat_interleave(B, 0)), given


def _convolution_options(
    config: GPSEncoderConfig, mean_log_degree: Callable[[], float | None]
) -> dict[str, Any]:
    """Options that the local part takes."""
    options: dict[str, Any] = {
        "hidden_dim": config.encoder_embed_dim,
        "learned_share": False,
        "num_heads": config.encoder_attention_heads,
        "attention_dropout": config.attention_dropout,
        "edge_dim": config.encoder_embed_dim,
        "num_towers": config.towers,
    }
    names = CONVOLUTIONS[config.local_part].options
    if "mean_log_degree" in names:
        options["mean_log_degree"] = mean_log_degree() or 1.0
    return {name: options[name] for name in names}


def edge_set_fields(config: GPSEncoderConfig) -> list[str]:
    """Registered fields of a config's `edge_sets`; ValueError for options that do not fit."""
    check_least("virtual_nodes", config.virtual_nodes, 0)
    if config.attention == "edges" and config.pair_encodings not in ("", "none"):
        raise ValueError(
            f"pair_encodings {config.pair_encodings}: attention edges has no pairs"
        )
    if config.attention != "edges" and (config.edge_sets or config.virtual_nodes):
        raise ValueError(
            "edge_sets and virtual_nodes only work with attention edges, got "
            f"{config.attention}"
        )
    names = config.edge_sets.replace(":", "_").split(",")
    return [name.strip() for name in names if name.strip()]


def _check_bonds(config: GPSEncoderConfig, vocabularies: Vocabularies) -> None:
    """Raise ValueError unless the options agree on whether bonds are read."""
    readers = [name for name, conv in CONVOLUTIONS.items() if conv.bonds != "none"]
    reads = config.local_part in readers
    if reads and config.no_edge_features:
        raise ValueError(
            f"no_edge_features: local_part {config.local_part} reads bonds, expected "
            + "|".join(name for name in CONVOLUTIONS if name not in readers)
        )
    bonds = vocabularies.bond_dims or vocabularies.num_edge_features
    if bonds and not (reads or config.no_edge_features or config.attention != "plain"):
        raise ValueError(
            f"local_part {config.local_part} reads no bonds, but edges have some; expected "
            f"{'|'.join(readers)}, or no_edge_features to leave the bonds out"
        )
