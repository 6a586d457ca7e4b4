"""Encoder of the chromatic graph Transformer (Menegaux et al. 2023, hal-04105101)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import check_choice
from graphormer_plugin.modules.attention.chromatic import ChromaticAttention
from graphormer_plugin.modules.attention.compiled import compiled_fits
from graphormer_plugin.modules.encoders.base import Encoder, perturbed
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder
from graphormer_plugin.modules.encodings.pair_encoder import PairEncoder, PairProjection
from graphormer_plugin.modules.encodings.pair_encodings import make_pair_terms
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.layers.encoder_config import (
    PairTransformerConfig,
    check_layers,
    defaults,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import EncoderLayer
from graphormer_plugin.modules.layers.init import init_columns
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout

MEMORY = ("auto", "plain", "lean")
# "auto" is "lean" if [B, N, N, D] has more elements than this, except on a GPU. There a
# training step takes twice as long in chunks (H100), and "auto" is "lean" if all layers
# would keep more than a third of the memory in float32: without chunks, three numbers for
# each element. Both limits are our choice.
LARGE = 1 << 22
BYTES_KEPT = 12


@dataclass
@defaults(
    encoder_layers=10,
    encoder_embed_dim=64,
    dropout=0.0,
    node_encodings="random_walks:20",
    node_encoding_dim=28,
)
class CGTEncoderConfig(PairTransformerConfig):
    """Options of `CGTEncoder`. The defaults are those of `cgt_zinc`, except that each
    layer has its own maps of pair features."""

    encoder_ffn_embed_dim: int = option(
        0, "inner width of the feed-forward network; 0: twice the width"
    )
    encoder_attention_heads: int = option(4, "attention heads H (query-key products)")
    attention_dropout: float = option(
        0.5, "dropout of connections in the attention, 0 <= p < 1"
    )
    act_dropout: Optional[float] = option(
        None, "dropout after the activation, 0 <= p < 1 (default: as --dropout)"
    )
    activation_fn: str = option(
        "relu",
        "activation of feed-forward network and head: relu, gelu (PCQM4Mv2) or silu",
    )
    node_dropout: float = option(
        0.0, "dropout of sending nodes in the attention, 0 <= p < 1"
    )
    channel_dropout: float = option(
        0.0, "dropout of whole channels of the attention, 0 <= p < 1"
    )
    attention: str = option(
        "chromatic",
        "chromatic: a score per channel (Eq. 5); mono: per head (Eq. 4); additive: q + "
        "k + E per channel (section 3.2)",
    )
    no_edge_values: bool = option(False, "no pair vectors in the messages (Table 5)")
    neighbours_only: bool = option(
        False, "nodes attend to themselves and their neighbours only"
    )
    relative_encoding: str = option(
        "rwse",
        "encoding of pairs: rwse (random walks, Eq. 12), spde (distances, Eq. 11), both "
        "or none",
    )
    relative_steps: int = option(
        20, "walk steps, and longest distance with its own vector (p)"
    )
    relative_dim: int = option(
        0, "channels of the relative encoding among the D of pair features; 0: half"
    )
    pair_combine: str = option(
        "concat", "bonds and relative encoding: concat (Eq. 9) or sum"
    )
    rings: str = option(
        "none",
        "pairs of nodes in one ring (section 3.4): additive (a vector), categorical "
        "(bond types of their own) or none",
    )
    max_ring_size: int = option(18, "most nodes of a ring for --rings, >= 3")
    substructures: str = option(
        "rings",
        "what counts as a ring: rings (cycles without chords), or a name that a module "
        "in --user-data-dir registers",
    )
    share_edge_encoding: bool = option(
        False, "one map from pair features to pair vectors for all layers"
    )
    own_edge_encoding: bool = option(
        False, "one such map per layer, also where the preset shares one"
    )
    output_projection: str = option(
        "full", "map after the attention: full, low_rank (D / 4) or none"
    )
    attention_memory: str = option(
        "auto",
        "lean: attention in chunks, recomputed in the backward pass; plain: all at "
        "once; auto: lean for large batches; without effect in float32 on a CPU",
        run_only=True,
    )


class CGTEncoder(Encoder):
    """Transformer over the nodes of a graph, without a virtual node, whose attention has
    a filter per pair of nodes, Menegaux et al. 2023.

    Layers: attention, sum, BatchNorm; two linear maps, ReLU between them,
    sum, BatchNorm (section 3.5).

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(1, node_dims=[119], bond_dims=[4])
        >>> config = CGTEncoderConfig(
        ...     encoder_layers=2, encoder_embed_dim=16, node_encodings="none"
        ... )
        >>> encoder = CGTEncoder(schema, config)
        >>> sorted(encoder.required_fields)
        ['bond', 'node_graph', 'node_mask', 'relation_index', 'relations', 'x']
        >>> batch = {
        ...     "x": torch.tensor([[[6], [8]]]),
        ...     "node_mask": torch.tensor([[True, True]]),
        ...     "node_graph": torch.tensor([0, 0]),
        ...     "bond": torch.tensor([[[0, 1], [1, 0]]]),
        ...     # positions in `relations`: self, and a bond of type 1
        ...     "relation_index": torch.tensor([[[1, 2], [2, 1]]]),
        ...     # padding, self, and what codes.bond_relation gives for that bond
        ...     "relations": torch.tensor([0, 1, encoder.pairs.max_hop + 3]),
        ... }
        >>> encoder(batch).shape
        torch.Size([1, 2, 16])
    """

    def __init__(self, vocabularies: Vocabularies, config: CGTEncoderConfig) -> None:
        super().__init__()
        check_layers(config)
        embed_dim = config.encoder_embed_dim
        check_choice("attention memory", config.attention_memory, MEMORY)
        self.embed_dim = embed_dim
        self.max_ring_size = config.max_ring_size
        self.substructures = config.substructures
        self.attention = config.attention
        self.attention_memory = config.attention_memory
        self.node_encoder = NodeEncoder(vocabularies, config)
        # The table of a single column keeps torch's start.
        if self.node_encoder.categorical and len(self.node_encoder.table_rows) > 1:
            init_columns(self.node_encoder)
        self.pairs = PairEncoder(
            vocabularies,
            embed_dim,
            config.relative_encoding,
            config.relative_steps,
            config.relative_dim or None,
            config.pair_combine,
            config.rings,
            config.neighbours_only,
            make_pair_terms(config, vocabularies, embed_dim),
        )
        for bonds in self.pairs.bonds:
            if len(bonds.table_rows) > 1:
                init_columns(bonds, averaged=True)
        mono = config.attention == "mono"
        shared = config.share_edge_encoding and not config.own_edge_encoding
        self.projections = nn.ModuleList(
            PairProjection(
                embed_dim,
                config.encoder_attention_heads if mono else embed_dim,
                0 if config.no_edge_values else embed_dim,
            )
            for _ in range(1 if shared else config.encoder_layers)
        )
        act_dropout = config.act_dropout
        self.layers = nn.ModuleList(
            EncoderLayer(
                ChromaticAttention(
                    embed_dim,
                    config.encoder_attention_heads,
                    config.attention,
                    config.output_projection,
                    config.attention_dropout,
                    config.node_dropout,
                    config.channel_dropout,
                ),
                embed_dim,
                config.encoder_ffn_embed_dim or 2 * embed_dim,
                config.dropout,
                config.dropout if act_dropout is None else act_dropout,
                config.activation_fn,
                pre_layernorm=False,
                norm=MaskedBatchNorm,
            )
            for _ in range(config.encoder_layers)
        )

    @property
    def fields(self) -> Iterable[str]:
        """See `Encoder`."""
        return "node_graph", *self.pairs.required_fields

    @property
    def options(self) -> dict[str, Any]:
        """See `Encoder`."""
        options = {
            "max_hop": self.pairs.max_hop,
            "distinct_edges": self.pairs.edges is not None,
        }
        if self.pairs.rings != "none":
            options["max_ring_size"] = self.max_ring_size
            options["substructures"] = self.substructures
        return options

    def layer_modules(self, number: int) -> list[nn.Module]:
        """See `Encoder`."""
        of_layers = self.projections if len(self.projections) > 1 else ()
        return [self.layers[number], *of_layers[number : number + 1]]

    @property
    def attention_unit(self) -> str:
        """See `Encoder`."""
        return "head" if self.attention == "mono" else "channel"

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, N, D]; padding is zero."""
        rows = NodeLayout.of(batch).flat_index
        further = self.pairs.further.inputs(batch)
        x = perturbed(self.node_encoder(batch) + further.nodes, perturb)
        features, *others = self.pairs(batch, further)
        if self.attention == "mono" or not compiled_fits(x):
            features = features.contiguous()  # for products with matrices
        pairs = [projection(features, *others) for projection in self.projections]
        if self.lean(x):
            pairs = [vectors._replace(lean=True) for vectors in pairs]
        pairs *= len(self.layers) // len(pairs)
        for layer, layer_pairs in zip(self.layers, pairs):
            x = self.run_layer(layer, x, layer_pairs, rows=rows)
        return x

    def lean(self, x: Tensor) -> bool:
        """Whether to compute the attention of x [B, N, D] in chunks, if the compiled
        function does not fit."""
        if self.attention_memory != "auto" or torch.compiler.is_compiling():
            return self.attention_memory == "lean"
        elements = x.shape[1] * x.numel()
        if x.device.type != "cuda":
            return elements > LARGE
        memory = torch.cuda.get_device_properties(x.device).total_memory
        return elements * len(self.layers) * BYTES_KEPT > memory / 3
