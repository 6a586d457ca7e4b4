"""Graphormer: Do Transformers Really Perform Bad for Graph Representation? (Ying et al.
2021).

https://arxiv.org/abs/2106.05234, and the second version of its released code
(microsoft/Graphormer), whose option names are kept. Where the two differ:

- The paper normalises before attention and feed-forward (Eq. 8-9), the released code
  after them unless `--pre-layernorm` is given; so does this model.
- The paper has a linear head, which is the default here and gives its parameter counts.
  The released code has a LayerNorm on the embeddings (`--encoder-normalize-before`) and
  a head with a hidden layer (`--head-style transform`), and computes GELU and softmax
  in float32 (`--activation-fn gelu_float32`, `--float32-softmax`), which makes a
  difference in other precisions only; `graphormer-convert` sets all of them.
- Paths of the edge encoding are cut at `--multi-hop-max-dist` edges and averaged over
  those, as in the released code; the paper averages over the whole path.
- The released code reads embeddings of "no edge" into the bias of pairs without one,
  by an untrained row of its table. Here these are zero; an imported model keeps them
  in its distance table, which is equal.
- One vector per in-degree and one per out-degree of the true, directed graph (Eq. 5);
  the released code takes the same number for both.

Initialisation, GELU and table sizes of 512 rows come from the released code; the paper
states none of them.
"""

import logging
from dataclasses import dataclass, field
from typing import Optional

from fairseq.models import register_model, register_model_architecture

from graphormer_plugin.modules import (
    GraphormerEncoder,
    LinearHead,
    TransformHead,
    make_pair_encodings,
)

from ._base import GraphModel, VirtualNodeConfig, set_defaults

logger = logging.getLogger(__name__)

HEAD_STYLES = ("linear", "transform")


@dataclass
class GraphormerConfig(VirtualNodeConfig):
    """Options of Graphormer; the sizes are those of `graphormer_base`."""

    pre_layernorm: bool = field(
        default=False,
        metadata={"help": "LayerNorm before each half of a layer (paper), not after"},
    )
    encoder_normalize_before: bool = field(
        default=False,
        metadata={"help": "LayerNorm on the embeddings (released code)"},
    )
    head_style: str = field(
        default="linear",
        metadata={"help": "linear (paper), or transform, with a hidden layer (code)"},
    )
    activation_fn: str = field(
        default="gelu", metadata={"help": "gelu, relu, or gelu_float32 (released code)"}
    )
    float32_softmax: bool = field(
        default=False,
        metadata={"help": "softmax in float32 in any precision (released code)"},
    )
    input_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout on the embeddings, 0 <= p < 1 (embedding dropout)"},
    )
    node_relation: str = field(
        default="spatial",
        metadata={
            "help": "how attention knows positions: spatial (bias by distance, Eq. 6), "
            "laplacian (eigenvectors in the input) or none (Table 5)"
        },
    )
    centrality: str = field(
        default="directed",
        metadata={
            "help": "degrees in the input (Eq. 5): directed (in and out), undirected "
            "(one table) or none (Table 5)"
        },
    )
    edge_type: str = field(
        default="multi_hop",
        metadata={
            "help": "where bonds enter: multi_hop (bias along the shortest path, "
            "Eq. 7), single_hop (bias of the direct edge), node, aggregation (messages "
            "of neighbours) or none (Table 5)"
        },
    )
    multi_hop_max_dist: int = field(
        default=5,
        metadata={"help": "edges of a path that are read, 1..253 (N of Eq. 7)"},
    )
    spatial_pos_max: int = field(
        default=1024,
        metadata={
            "help": "pairs at so many hops or more do not attend, >= 1; FAR counts as "
            "254 and unreachable as 510 hops"
        },
    )
    rwse_steps: int = field(
        default=0,
        metadata={"help": "random-walk return probabilities in the input, 0: none"},
    )
    gaussian_kernels: int = field(
        default=0,
        metadata={
            "help": "Gaussians of the bias by L2 distance, for data with `pos`; 0: none"
        },
    )
    lap_pe_dim: int = field(
        default=8, metadata={"help": "eigenvectors for --node-relation laplacian, >= 1"}
    )
    bond_table_size: int = field(
        default=0,
        metadata={
            "help": "rows of the embedding table of every bond column; 0 takes the "
            "dataset's vocabulary, the published code has 512"
        },
    )
    num_in_degree: int = field(
        default=512, metadata={"help": "in-degrees; larger ones share the last row"}
    )
    num_out_degree: int = field(
        default=512, metadata={"help": "out-degrees; larger ones share the last row"}
    )
    num_spatial: int = field(
        default=512,
        metadata={
            "help": "rows of the distance table, >= 3: unreachable, 0 hops, 1 hop, "
            "...; longer distances share the last row"
        },
    )
    num_edge_dis: int = field(
        default=0,
        metadata={
            "help": "rows of the table of path steps; 0 takes --multi-hop-max-dist, "
            "the published code has 128"
        },
    )
    num_atoms: int = field(
        default=0,
        metadata={
            "help": "rows of the tables of all node columns together (released code: "
            "4608 for 9 columns); --node-table-size says it per column"
        },
    )
    num_edges: int = field(
        default=0,
        metadata={
            "help": "rows of the tables of all bond columns together (released code: "
            "1536 for 3 columns); --bond-table-size says it per column"
        },
    )
    apply_graphormer_init: bool = field(
        default=False, metadata={"help": "released code; here always so"}
    )
    share_encoder_input_output_embed: bool = field(
        default=False, metadata={"help": "released code; no effect"}
    )
    encoder_learned_pos: bool = field(
        default=False, metadata={"help": "released code; no effect there or here"}
    )
    no_token_positional_embeddings: bool = field(
        default=False, metadata={"help": "released code; no effect there or here"}
    )
    max_positions: Optional[int] = field(
        default=None, metadata={"help": "released code; no effect there or here"}
    )


# Flags of the released code that change nothing, and why.
WITHOUT_EFFECT = {
    "apply_graphormer_init": "weights always start that way",
    "share_encoder_input_output_embed": "outputs are no words of a vocabulary",
    "encoder_learned_pos": "nodes have no order",
    "no_token_positional_embeddings": "nodes have no order",
    "max_positions": "--max-nodes limits the size of graphs",
}


@register_model("graphormer", dataclass=GraphormerConfig)
class GraphormerModel(GraphModel):
    """`GraphormerEncoder` with a head on the virtual node (without one, the mean)."""

    @classmethod
    def build_model(cls, cfg: GraphormerConfig, task) -> "GraphormerModel":
        if cfg.head_style not in HEAD_STYLES:
            raise ValueError(
                f"unknown head_style {cfg.head_style!r}, "
                f"expected {'|'.join(HEAD_STYLES)}"
            )
        for name, reason in WITHOUT_EFFECT.items():
            if getattr(cfg, name):
                flag = name.replace("_", "-")
                logger.info("--%s has no effect: %s", flag, reason)
        node_columns = len(task.schema.node_dims or ()) or 1
        bond_columns = len(task.schema.bond_dims) or 1
        node_rows = cfg.node_table_size or cfg.num_atoms // node_columns
        bond_rows = cfg.bond_table_size or cfg.num_edges // bond_columns
        transform = cfg.head_style == "transform"
        encoder = GraphormerEncoder(
            task.schema,
            num_layers=cfg.encoder_layers,
            embed_dim=cfg.encoder_embed_dim,
            ffn_dim=cfg.encoder_ffn_embed_dim,
            num_heads=cfg.encoder_attention_heads,
            node_relation=cfg.node_relation,
            centrality=cfg.centrality,
            edge_type=cfg.edge_type,
            multi_hop_max_dist=cfg.multi_hop_max_dist,
            spatial_pos_max=cfg.spatial_pos_max,
            rwse_steps=cfg.rwse_steps,
            gaussian_kernels=cfg.gaussian_kernels,
            lap_pe_dim=cfg.lap_pe_dim,
            node_table_size=node_rows or None,
            bond_table_size=bond_rows or None,
            num_in_degree=cfg.num_in_degree,
            num_out_degree=cfg.num_out_degree,
            num_spatial=cfg.num_spatial,
            num_edge_dis=cfg.num_edge_dis or None,
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            act_dropout=cfg.act_dropout,
            input_dropout=cfg.input_dropout,
            activation=cfg.activation_fn,
            float32_softmax=cfg.float32_softmax,
            pre_layernorm=cfg.pre_layernorm,
            embed_norm=cfg.encoder_normalize_before,
            # The transform head normalises, and the released code has no other norm.
            final_norm=cfg.pre_layernorm and not transform,
            virtual_node=not cfg.no_virtual_node,
            pair_encodings=make_pair_encodings(cfg.pair_encodings, task.schema),
        )
        outputs = task.targets.num_outputs
        if transform:
            head = TransformHead(cfg.encoder_embed_dim, outputs, cfg.activation_fn)
        else:
            head = LinearHead(cfg.encoder_embed_dim, outputs)
        return cls(encoder, head, task.targets.level)


# Sizes of Tables 7 and 10 and section B.2.2; the largest is the released code's.


@register_model_architecture("graphormer", "graphormer_slim")
def graphormer_slim(cfg) -> None:
    set_defaults(
        cfg,
        encoder_layers=12,
        encoder_embed_dim=80,
        encoder_ffn_embed_dim=80,
        encoder_attention_heads=8,
        # Tables of the first release for ZINC, without which the model would have
        # more than the 500k parameters that the benchmark allows.
        num_in_degree=64,
        num_out_degree=64,
        num_spatial=40,
    )


@register_model_architecture("graphormer", "graphormer_small")
def graphormer_small(cfg) -> None:
    set_defaults(
        cfg, encoder_layers=6, encoder_embed_dim=512, encoder_ffn_embed_dim=512
    )
    graphormer_base(cfg)


@register_model_architecture("graphormer", "graphormer_base")
def graphormer_base(cfg) -> None:
    set_defaults(
        cfg,
        encoder_layers=12,
        encoder_embed_dim=768,
        encoder_ffn_embed_dim=768,
        encoder_attention_heads=32,
    )


@register_model_architecture("graphormer", "graphormer_deep")
def graphormer_deep(cfg) -> None:
    set_defaults(cfg, encoder_layers=18, attention_dropout=0.3)
    graphormer_large(cfg)


@register_model_architecture("graphormer", "graphormer_large")
def graphormer_large(cfg) -> None:
    set_defaults(
        cfg, encoder_layers=24, encoder_embed_dim=1024, encoder_ffn_embed_dim=1024
    )
    graphormer_base(cfg)
