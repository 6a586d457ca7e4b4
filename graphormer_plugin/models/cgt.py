"""CGT: Self-Attention in Colors: Another Take on Encoding Graph Structure in
Transformers (Menegaux et al. 2023).

https://hal.science/hal-04105101. The attention (CSA) equals that of the released code
(inria-thoth/csa), and what the paper leaves open comes from there:

- A linear map with bias follows the attention. At 16 layers of width 256 that makes
  8.6M weights, as in the released code, where the paper says 8.2M (Table 6) and 8.3M
  (Table 3); `--output-projection low_rank` has 8.1M.
- Graphs have a head with two hidden layers of D / 2 and D / 4, nodes one with two of
  width D, the output of each divided by its L2 norm, which GraphGym does by default.
- The presets of PCQM4Mv2 have GELU, in the feed-forward network and in the head.
- `--dropout` acts inside the feed-forward network, too, and "attention dropout" of
  Table 6 drops connections (`--attention-dropout`).
- Pair features are as wide as the nodes; half of it is the relative encoding.
- Additive rings: a pair in one ring has a vector more in the half of the bonds, one if
  it is bonded and another if it is not.
- Table 6 has 16 layers for CSA-small, which would be 8M weights; 2.8M are five.
- Weights start as torch's layers do; the columns of a molecule's atoms and bonds, where
  there are several, as OGB's encoders (xavier_uniform).

Here differently:

- Rings are cycles without chords, as the paper says, in any graph (`data/rings.py`).
- Categorical rings double "self" and "no bond" as well as the bond types.
- Distances beyond p have a learned vector, as the paper says, not zero.
- The map of random walks and the shared maps to E^att and E^val have no bias. Classes
  of nodes (PATTERN, CLUSTER) have an embedding, not a linear map with bias. Columns of
  bonds are averaged, not summed.
- The bias of the last map of the head for graphs is added once a graph, after the sum
  over its nodes (`--head-before-readout`: once a node).
- PATTERN has two classes and a mean by their weights, not one logit and a plain mean.
- The recipes change the learning rate per update, not per epoch.
- `--neighbours-only` leaves each node itself among its neighbours.
"""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.models import register_model, register_model_architecture
from torch import Tensor

from graphormer_plugin.models._base import GraphModel, PairConfig, set_defaults
from graphormer_plugin.modules import CGTEncoder, MLPHead, make_pair_encodings


@dataclass
class CGTConfig(PairConfig):
    """Options of CGT; the defaults are those of `cgt_zinc`, except that each layer has
    its own maps of pair features."""

    encoder_layers: int = field(default=10, metadata={"help": "number of layers, >= 1"})
    encoder_embed_dim: int = field(
        default=64, metadata={"help": "width D, a multiple of the heads"}
    )
    encoder_ffn_embed_dim: int = field(
        default=0,
        metadata={
            "help": "inner width of the feed-forward network; 0: twice the width"
        },
    )
    encoder_attention_heads: int = field(
        default=4, metadata={"help": "attention heads H (query-key products)"}
    )
    dropout: float = field(
        default=0.0,
        metadata={"help": "dropout after attention and feed-forward, 0 <= p < 1"},
    )
    attention_dropout: float = field(
        default=0.5,
        metadata={"help": "dropout of connections in the attention, 0 <= p < 1"},
    )
    act_dropout: Optional[float] = field(
        default=None,
        metadata={
            "help": "dropout after the activation, 0 <= p < 1 (default: as --dropout)"
        },
    )
    activation_fn: str = field(
        default="relu",
        metadata={"help": "of feed-forward network and head: relu or gelu (PCQM4Mv2)"},
    )
    head_layers: int = field(
        default=2,
        metadata={
            "help": "hidden layers of the head for graphs, >= 0, each half as wide as "
            "the one before"
        },
    )
    no_head_unit_norm: bool = field(
        default=False,
        metadata={
            "help": "hidden layers of the head for nodes are not divided by their L2 "
            "norm"
        },
    )
    head_before_readout: bool = field(
        default=False,
        metadata={
            "help": "nodes pass through the head's last map, too, before they are read "
            "out, as in the released code, so that a sum has its bias once a node; for "
            "checkpoints imported from it"
        },
    )
    node_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout of sending nodes in the attention, 0 <= p < 1"},
    )
    channel_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout of whole channels of the attention, 0 <= p < 1"},
    )
    attention: str = field(
        default="chromatic",
        metadata={
            "help": "chromatic: a score per channel (Eq. 5); mono: per head (Eq. 4); "
            "additive: q + k + E per channel (section 3.2)"
        },
    )
    no_edge_values: bool = field(
        default=False, metadata={"help": "no pair vectors in the messages (Table 5)"}
    )
    neighbours_only: bool = field(
        default=False,
        metadata={"help": "nodes attend to themselves and their neighbours only"},
    )
    relative_encoding: str = field(
        default="rwse",
        metadata={
            "help": "of pairs: rwse (random walks, Eq. 12), spde (distances, Eq. 11), "
            "both or none"
        },
    )
    relative_steps: int = field(
        default=20,
        metadata={"help": "walk steps, and longest distance with its own vector (p)"},
    )
    relative_dim: int = field(
        default=0,
        metadata={
            "help": "of the D channels of pair features, those of the relative "
            "encoding; 0: half"
        },
    )
    pair_combine: str = field(
        default="concat",
        metadata={"help": "bonds and relative encoding: concat (Eq. 9) or sum"},
    )
    rwse_steps: int = field(
        default=20,
        metadata={"help": "random-walk return probabilities in the input, 0: none"},
    )
    rwse_dim: int = field(
        default=28,
        metadata={"help": "of the D channels of the input, those of --rwse-steps"},
    )
    rings: str = field(
        default="none",
        metadata={
            "help": "pairs of nodes in one ring (section 3.4): additive (a vector), "
            "categorical (bond types of their own) or none"
        },
    )
    max_ring_size: int = field(
        default=18, metadata={"help": "most nodes of a ring for --rings, >= 3"}
    )
    substructures: str = field(
        default="rings",
        metadata={
            "help": "what counts as a ring: rings (cycles without chords), or a name "
            "that a module in --user-data-dir registers"
        },
    )
    share_edge_encoding: bool = field(
        default=False,
        metadata={"help": "one map from pair features to pair vectors for all layers"},
    )
    own_edge_encoding: bool = field(
        default=False,
        metadata={"help": "one such map per layer, also where the preset shares one"},
    )
    output_projection: str = field(
        default="full",
        metadata={"help": "map after the attention: full, low_rank (D / 4) or none"},
    )
    readout: str = field(
        default="sum", metadata={"help": "of the nodes of a graph: sum, mean or max"}
    )
    attention_memory: str = field(
        default="auto",
        metadata={
            "help": "lean: attention in chunks, recomputed in the backward pass; plain: "
            "all at once; auto: lean for large batches; without effect in float32 on a CPU",
            "of_run": True,
        },
    )


@register_model("cgt", dataclass=CGTConfig)
class CGTModel(GraphModel):
    """`CGTEncoder` with a head on each node, whose results are read out for a graph.

    Attributes:
        head_before_readout: see `CGTConfig`.
    """

    head_before_readout = False

    options_before = {"head_layers": 3, "no_head_unit_norm": True}

    @classmethod
    def build_model(cls, cfg: CGTConfig, task) -> "CGTModel":
        encoder = CGTEncoder(
            task.schema,
            node_table_size=cfg.node_table_size or None,
            num_layers=cfg.encoder_layers,
            embed_dim=cfg.encoder_embed_dim,
            ffn_dim=cfg.encoder_ffn_embed_dim or None,
            num_heads=cfg.encoder_attention_heads,
            rwse_steps=cfg.rwse_steps,
            rwse_dim=cfg.rwse_dim,
            relative_encoding=cfg.relative_encoding,
            relative_steps=cfg.relative_steps,
            relative_dim=cfg.relative_dim or None,
            combine=cfg.pair_combine,
            rings=cfg.rings,
            max_ring_size=cfg.max_ring_size,
            substructures=cfg.substructures,
            neighbours_only=cfg.neighbours_only,
            share_edge_encoding=cfg.share_edge_encoding and not cfg.own_edge_encoding,
            edge_values=not cfg.no_edge_values,
            attention=cfg.attention,
            output_projection=cfg.output_projection,
            attention_dropout=cfg.attention_dropout,
            node_dropout=cfg.node_dropout,
            channel_dropout=cfg.channel_dropout,
            dropout=cfg.dropout,
            act_dropout=(cfg.dropout if cfg.act_dropout is None else cfg.act_dropout),
            activation=cfg.activation_fn,
            attention_memory=cfg.attention_memory,
            pair_encodings=make_pair_encodings(cfg.pair_encodings, task.schema),
        )
        width, outputs = cfg.encoder_embed_dim, task.targets.num_outputs
        level = task.targets.level
        if level == "node":
            widths = [width, width, width, outputs]
            head = MLPHead(widths, cfg.activation_fn, not cfg.no_head_unit_norm)
        else:
            head = MLPHead.halving(width, cfg.head_layers, outputs, cfg.activation_fn)
        model = cls(encoder, head, level, cfg.readout)
        model.head_before_readout = cfg.head_before_readout
        return model

    def forward(
        self, batch: dict[str, Tensor], perturb: Tensor | None = None
    ) -> Tensor:
        """See `GraphModel`."""
        if self.level == "node":
            return super().forward(batch, perturb)
        x = self.encoder(batch, perturb)
        if self.head_before_readout:
            return self.graphs(self.head(x), batch["node_mask"])
        x = self.head.hidden(x)
        return self.head.projection(self.graphs(x, batch["node_mask"]))


# Table 6. Optimiser: AdamW, cosine schedule with warm-up.


@register_model_architecture("cgt", "cgt_zinc")
def cgt_zinc(cfg) -> None:
    set_defaults(cfg, share_edge_encoding=True)


@register_model_architecture("cgt", "cgt_zinc_rings")
def cgt_zinc_rings(cfg) -> None:
    set_defaults(cfg, rings="categorical")
    cgt_zinc(cfg)


@register_model_architecture("cgt", "cgt_pattern")
def cgt_pattern(cfg) -> None:
    set_defaults(cfg, encoder_layers=6, rwse_steps=16, rwse_dim=16, relative_steps=16)


@register_model_architecture("cgt", "cgt_cluster")
def cgt_cluster(cfg) -> None:
    set_defaults(
        cfg,
        encoder_layers=16,
        encoder_embed_dim=48,
        encoder_attention_heads=8,
        dropout=0.1,
        rwse_steps=16,
        rwse_dim=16,
        relative_steps=16,
    )


@register_model_architecture("cgt", "cgt_small")
def cgt_small(cfg) -> None:
    set_defaults(
        cfg,
        encoder_layers=5,
        encoder_embed_dim=256,
        encoder_attention_heads=16,
        rwse_steps=0,
        relative_steps=16,
        share_edge_encoding=True,
        activation_fn="gelu",
        readout="mean",
    )


@register_model_architecture("cgt", "cgt_deep")
def cgt_deep(cfg) -> None:
    set_defaults(
        cfg,
        encoder_layers=16,
        relative_encoding="spde",
        relative_steps=8,
        rings="additive",
        max_ring_size=6,
    )
    cgt_small(cfg)
