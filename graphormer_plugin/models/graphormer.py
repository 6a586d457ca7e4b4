"""Graphormer: Do Transformers Really Perform Bad for Graph Representation? (Ying et al.
2021).

https://arxiv.org/abs/2106.05234, and its released code (microsoft/Graphormer), whose
second version gives the names of the options. There are two families of presets:

- `graphormer_paper_{slim,small,base,deep}` are the paper's networks (Eq. 5-9):
  LayerNorm before each half of a layer; a linear head; dropout 0.1, but none inside the
  feed-forward network or on the embeddings; linear maps start from N(0, 0.02 / sqrt(L)),
  as in the first version of the code. `graphormer_small` and `graphormer_deep` are
  other names of two of them, which older commands and checkpoints have; the second
  version has no presets of these names.
- `graphormer_{slim,base,large}` are those of the second version under its own names:
  LayerNorm after each half unless `--pre-layernorm`, and on the embeddings
  (`--encoder-normalize-before`); a head with a hidden layer and LayerNorm (`--head-style
  transform`); inner dropout 0.1 and dropout 0.0, which acts on the embeddings, too;
  linear maps start from N(0, 0.02) (`--apply-graphormer-init`); 512 rows for every
  column and 128 path steps; GELU and softmax in float32.

Embeddings start from N(0, 0.02) in both. Where paper and code differ further:

- Paths of the edge encoding are cut at `--multi-hop-max-dist` edges and averaged over
  those, as in the released code; the paper averages over the whole path.
- The released code reads embeddings of "no edge" into the bias of pairs without one,
  by an untrained row of its table. Here these are zero; an imported model keeps them
  in its distance table, which is equal.
- One vector per in-degree and one per out-degree of the true, directed graph (Eq. 5);
  the released code takes the same number for both.
- Paths through the first node keep their edges; the released code loses them, because
  0 also stands for "no node between".
- The presets slim and large of the second version leave `--dropout` at 0.1 and
  `--act-dropout` at 0.0 where a command does not name them; its own commands all name
  0.0 and 0.1, which are the presets' values here.
- The released code leaves graphs of more than 128 nodes out of all splits.

GELU comes from the released code; the paper states no activation.
"""

import logging
from dataclasses import dataclass, field
from typing import Optional

from fairseq.models import register_model, register_model_architecture

from graphormer_plugin.models._base import GraphModel, VirtualNodeConfig, set_defaults
from graphormer_plugin.modules import (
    GraphormerEncoder,
    LinearHead,
    TransformHead,
    make_pair_encodings,
)
from graphormer_plugin.modules.choices import check_choice
from graphormer_plugin.modules.init import init_transformer

logger = logging.getLogger(__name__)

HEAD_STYLES = ("linear", "transform")


@dataclass
class GraphormerConfig(VirtualNodeConfig):
    """Options of Graphormer; the sizes are those of `graphormer_paper_base`."""

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
    input_dropout: Optional[float] = field(
        default=None,
        metadata={
            "help": "dropout on the embeddings, 0 <= p < 1 (default: as --dropout; the "
            "paper's presets have 0)"
        },
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
            "help": "hops from which on pairs do not attend, >= 1; FAR counts as "
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
        default=False,
        metadata={
            "help": "linear maps start from N(0, 0.02), as in the second version; else "
            "from N(0, 0.02 / sqrt(layers)), as in the first"
        },
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
    "share_encoder_input_output_embed": "outputs are not words of a vocabulary",
    "encoder_learned_pos": "nodes have no order",
    "no_token_positional_embeddings": "nodes have no order",
    "max_positions": "--max-nodes limits the size of graphs",
}


@register_model("graphormer", dataclass=GraphormerConfig)
class GraphormerModel(GraphModel):
    """`GraphormerEncoder` with a head on the virtual node (without one, the mean)."""

    @classmethod
    def build_model(cls, cfg: GraphormerConfig, task) -> "GraphormerModel":
        check_choice("head_style", cfg.head_style, HEAD_STYLES)
        for name, reason in WITHOUT_EFFECT.items():
            if getattr(cfg, name):
                flag = name.replace("_", "-")
                logger.info("--%s has no effect: %s", flag, reason)
        node_columns = len(task.schema.node_dims or ()) or 1
        bond_columns = len(task.schema.bond_dims) or 1
        node_rows = cfg.num_atoms // node_columns or cfg.node_table_size
        bond_rows = cfg.num_edges // bond_columns or cfg.bond_table_size
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
            input_dropout=(
                cfg.dropout if cfg.input_dropout is None else cfg.input_dropout
            ),
            activation=cfg.activation_fn,
            float32_softmax=cfg.float32_softmax,
            pre_layernorm=cfg.pre_layernorm,
            embed_norm=cfg.encoder_normalize_before,
            # The transform head normalises, and the released code has no other norm.
            final_norm=cfg.pre_layernorm and not transform,
            virtual_node=not cfg.no_virtual_node,
            pair_encodings=make_pair_encodings(cfg.pair_encodings, task.schema),
            depth_scaled_init=not cfg.apply_graphormer_init,
        )
        outputs = task.targets.num_outputs
        if transform:
            head = TransformHead(cfg.encoder_embed_dim, outputs, cfg.activation_fn)
        else:
            head = LinearHead(cfg.encoder_embed_dim, outputs)
        depth = 1 if cfg.apply_graphormer_init else cfg.encoder_layers
        head.apply(lambda module: init_transformer(module, depth))
        return cls(encoder, head, task.targets.level)


# The paper's networks: Tables 7 and 10 and section B.2.2.


def _paper(cfg, layers: int, width: int, heads: int) -> None:
    set_defaults(
        cfg,
        encoder_layers=layers,
        encoder_embed_dim=width,
        encoder_ffn_embed_dim=width,
        encoder_attention_heads=heads,
        pre_layernorm=True,
        input_dropout=0.0,
    )


@register_model_architecture("graphormer", "graphormer_paper_slim")
def graphormer_paper_slim(cfg) -> None:
    # Tables of the first release for ZINC, without which the model would have more
    # than the 500k parameters that the benchmark allows.
    set_defaults(cfg, num_in_degree=64, num_out_degree=64, num_spatial=40)
    _paper(cfg, layers=12, width=80, heads=8)


@register_model_architecture("graphormer", "graphormer_paper_small")
@register_model_architecture("graphormer", "graphormer_small")
def graphormer_paper_small(cfg) -> None:
    _paper(cfg, layers=6, width=512, heads=32)


@register_model_architecture("graphormer", "graphormer_paper_base")
def graphormer_paper_base(cfg) -> None:
    _paper(cfg, layers=12, width=768, heads=32)


@register_model_architecture("graphormer", "graphormer_paper_deep")
@register_model_architecture("graphormer", "graphormer_deep")
def graphormer_paper_deep(cfg) -> None:
    set_defaults(cfg, attention_dropout=0.3)
    _paper(cfg, layers=18, width=1024, heads=32)


# Those of the second version, under its names.


def _released(cfg, layers: int, width: int, heads: int) -> None:
    set_defaults(
        cfg,
        encoder_layers=layers,
        encoder_embed_dim=width,
        encoder_ffn_embed_dim=width,
        encoder_attention_heads=heads,
        encoder_normalize_before=True,
        head_style="transform",
        apply_graphormer_init=True,
        dropout=0.0,
        attention_dropout=0.1,
        act_dropout=0.1,
        # fairseq's GELU and softmax, which it calls.
        activation_fn="gelu_float32",
        float32_softmax=True,
        node_table_size=512,
        bond_table_size=512,
        num_edge_dis=128,
    )


@register_model_architecture("graphormer", "graphormer_slim")
def graphormer_slim(cfg) -> None:
    _released(cfg, layers=12, width=80, heads=8)


@register_model_architecture("graphormer", "graphormer_base")
def graphormer_base(cfg) -> None:
    _released(cfg, layers=12, width=768, heads=32)


@register_model_architecture("graphormer", "graphormer_large")
def graphormer_large(cfg) -> None:
    _released(cfg, layers=24, width=1024, heads=32)
