"""GRPE: Relative Positional Encoding for Graph Transformer (Park et al. 2022).

https://arxiv.org/abs/2201.12787. The model is the paper's. Where the released code
(lenscloth/GRPE) differs, the paper is followed:

- The key term of Eq. 6-7 takes the key of the attended node j; the code takes that of
  the row i (`--key-from-row`).
- The virtual node is virtually related to itself, too; in the code it is related to
  itself as a node is (`--virtual-is-self`).
- A pair of identical nodes has an edge vector of its own; the code overwrites it by
  "no edge".
- Distances beyond L have a vector of their own, P_far; the code gives them that of L.
- A node column has a row for each of its codes; the code for molecules has 512
  (`--node-table-size 512`). It leaves training graphs of more than 128 nodes out; here
  they are kept.

The paper states none of these, and they come from the code: weights start as torch's
layers do (linear maps uniform within +-1 / sqrt(inputs), all embeddings N(0, 1), the
virtual node zero), GELU, and the dropout rates.
"""

from dataclasses import dataclass, field

from fairseq.models import register_model, register_model_architecture

from graphormer_plugin.models._base import GraphModel, VirtualNodeConfig, set_defaults
from graphormer_plugin.modules import (
    GRPEEncoder,
    LinearHead,
    MLPHead,
    make_pair_encodings,
)


@dataclass
class GRPEConfig(VirtualNodeConfig):
    """Options of GRPE; the defaults are those of `grpe_standard`."""

    max_hop: int = field(
        default=5,
        metadata={"help": "largest distance with a vector of its own, 1 to 253 (L)"},
    )
    perturb_noise: float = field(
        default=0.0,
        metadata={
            "help": "uniform noise within +-this on node vectors in training",
            "of_run": True,
        },
    )
    independent_encodings: bool = field(
        default=False,
        metadata={"help": "own topology and edge vectors in every layer (Table 10)"},
    )
    head_layers: int = field(
        default=0,
        metadata={
            "help": "hidden layers of the head, as wide as the nodes, with GELU, >= 0 "
            "(last_mlp of the released code)"
        },
    )
    no_topology_attention: bool = field(
        default=False, metadata={"help": "no distances in the scores (Eq. 6, Table 9)"}
    )
    no_edge_attention: bool = field(
        default=False, metadata={"help": "no bonds in the scores (Eq. 7, Table 9)"}
    )
    no_graph_encoded_value: bool = field(
        default=False,
        metadata={"help": "no distances and bonds in the values (Eq. 9, Table 9)"},
    )
    key_from_row: bool = field(
        default=False,
        metadata={
            "help": "the key term reads the key of the attending node, as the released "
            "code does; for checkpoints imported from it"
        },
    )
    virtual_is_self: bool = field(
        default=False,
        metadata={
            "help": "the virtual node has the relation of a node to itself, as in the "
            "released code; for checkpoints imported from it"
        },
    )


@register_model("grpe", dataclass=GRPEConfig)
class GRPEModel(GraphModel):
    """`GRPEEncoder` with a linear head on the virtual node (without one, the mean)."""

    @classmethod
    def build_model(cls, cfg: GRPEConfig, task) -> "GRPEModel":
        encoder = GRPEEncoder(
            task.schema,
            node_table_size=cfg.node_table_size or None,
            num_layers=cfg.encoder_layers,
            embed_dim=cfg.encoder_embed_dim,
            ffn_dim=cfg.encoder_ffn_embed_dim,
            num_heads=cfg.encoder_attention_heads,
            max_hop=cfg.max_hop,
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            act_dropout=cfg.act_dropout,
            perturb_noise=cfg.perturb_noise,
            independent_encodings=cfg.independent_encodings,
            topology_attention=not cfg.no_topology_attention,
            edge_attention=not cfg.no_edge_attention,
            encode_value=not cfg.no_graph_encoded_value,
            key_from_row=cfg.key_from_row,
            virtual_is_self=cfg.virtual_is_self,
            virtual_node=not cfg.no_virtual_node,
            pair_encodings=make_pair_encodings(cfg.pair_encodings, task.schema),
        )
        width, outputs = cfg.encoder_embed_dim, task.targets.num_outputs
        head = LinearHead(width, outputs)
        if cfg.head_layers:
            head = MLPHead([width] * (cfg.head_layers + 1) + [outputs], "gelu")
        return cls(encoder, head, task.targets.level)


# Sizes of Table 1.


def _sizes(cfg, layers: int, width: int, ffn_width: int, heads: int) -> None:
    set_defaults(
        cfg,
        encoder_layers=layers,
        encoder_embed_dim=width,
        encoder_ffn_embed_dim=ffn_width,
        encoder_attention_heads=heads,
    )


@register_model_architecture("grpe", "grpe_tiny")
def grpe_tiny(cfg) -> None:
    _sizes(cfg, layers=4, width=64, ffn_width=64, heads=8)


@register_model_architecture("grpe", "grpe_small")
def grpe_small(cfg) -> None:
    _sizes(cfg, layers=12, width=80, ffn_width=80, heads=8)


@register_model_architecture("grpe", "grpe_standard")
def grpe_standard(cfg) -> None:
    _sizes(cfg, layers=12, width=768, ffn_width=768, heads=32)


@register_model_architecture("grpe", "grpe_large")
def grpe_large(cfg) -> None:
    _sizes(cfg, layers=18, width=1024, ffn_width=1024, heads=32)
