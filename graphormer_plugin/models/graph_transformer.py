"""GT: A Generalization of Transformer Networks to Graphs (Dwivedi & Bresson 2021).

https://arxiv.org/abs/2012.09699. What the paper leaves open is that of the released code
(graphdeeplearning/graphtransformer), with which an imported model agrees:

- Scores are clamped to [-5, 5] before the exponential ("the outputs after taking
  exponents", says the paper); with edge features 1e-6 is added to the denominator.
- The scores that go on as edge features are those per channel, before the sum over a
  head, and before the clamp. Nothing reads the edges of the last layer.
- Embeddings are tables; queries, keys, values and the edge projection have no bias.
- The head has two hidden layers, of D / 2 and D / 4.
- The full graph has no edge from a node to itself. Where edges have features, all its
  pairs start with one constant vector, which the layers update: that makes the 588,929
  weights that Table 1 has on ZINC, though its text says that edge features are discarded
  (`--no-pair-features` does without).
- A WL role is a degree: of the two rounds that the code computes, it keeps the first.
  The tables have 37 rows on ZINC and 100 on PATTERN and CLUSTER. `--wl-rounds 2` has the
  degrees of the neighbours, too.
- Weights start as torch's layers do.

Here differently:

- A node without edges gets the bias of O_h instead of NaN.
- All dropout is that of a Transformer's layer (rates are 0 in the paper).
- Roles are the same in all graphs; the released code numbers those that occur anew in
  each, in the order of a checksum. Degrees above the table share its last row.
- Each eigenvector of each graph has a random sign in training; in the released code all
  graphs of a batch share the signs.
"""

from dataclasses import dataclass, field

from fairseq.models import register_model, register_model_architecture

from graphormer_plugin.models._base import GraphModel, TransformerConfig, set_defaults
from graphormer_plugin.modules import GraphTransformerEncoder, MLPHead


@dataclass
class GraphTransformerConfig(TransformerConfig):
    """Options of GT; the defaults are those of `gt_zinc`."""

    encoder_layers: int = field(default=10, metadata={"help": "number of layers, >= 1"})
    encoder_embed_dim: int = field(
        default=64, metadata={"help": "width D, a multiple of the heads"}
    )
    encoder_ffn_embed_dim: int = field(
        default=0,
        metadata={
            "help": "inner width of the feed-forward networks; 0: twice the width"
        },
    )
    encoder_attention_heads: int = field(
        default=8, metadata={"help": "attention heads H"}
    )
    dropout: float = field(
        default=0.0,
        metadata={"help": "dropout after attention and feed-forward, 0 <= p < 1"},
    )
    attention_dropout: float = field(
        default=0.0, metadata={"help": "dropout on attention weights, 0 <= p < 1"}
    )
    input_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout on the embedded nodes and edges, 0 <= p < 1"},
    )
    norm: str = field(
        default="batch", metadata={"help": "normalisation: batch or layer (Table 1)"}
    )
    full_graph: bool = field(
        default=False,
        metadata={
            "help": "every node attends to every other one; edge features start from "
            "one constant (Table 1)"
        },
    )
    no_edge_features: bool = field(
        default=False, metadata={"help": "Eq. 4-8 also where edges have features"}
    )
    pos_enc: str = field(
        default="laplacian",
        metadata={
            "help": "in the node input: laplacian (eigenvectors), wl "
            "(Weisfeiler-Lehman roles, Table 3) or none"
        },
    )
    lap_pe_dim: int = field(
        default=8, metadata={"help": "eigenvectors for --pos-enc laplacian, >= 1 (k)"}
    )
    no_pair_features: bool = field(
        default=False,
        metadata={
            "help": "with --full-graph: pairs have no features, Eq. 4-8, also where edges "
            "have some"
        },
    )
    wl_rows: int = field(
        default=37,
        metadata={
            "help": "rows of the table for --pos-enc wl, >= 1; higher degrees share the "
            "last one. With --wl-rounds 2, 70 hold all roles with degrees up to 4, 252 "
            "up to 5, 924 up to 6; others share them by hash"
        },
    )
    wl_rounds: int = field(
        default=1,
        metadata={
            "help": "rounds for --pos-enc wl: 1, a role is a degree (released code), or "
            "2, a degree with the degrees of the neighbours"
        },
    )
    readout: str = field(
        default="mean", metadata={"help": "of the nodes of a graph: mean, sum or max"}
    )
    attention_form: str = field(
        default="auto",
        metadata={
            "help": "without edge features: sparse (edge by edge), dense (padded "
            "matrices and a mask), or auto, the faster one for each batch",
            "of_run": True,
        },
    )


@register_model("gt", dataclass=GraphTransformerConfig)
class GraphTransformerModel(GraphModel):
    """`GraphTransformerEncoder` with a network on the mean of the nodes, or on each."""

    options_before = {"wl_rounds": 2, "no_pair_features": True}

    @classmethod
    def build_model(cls, cfg: GraphTransformerConfig, task) -> "GraphTransformerModel":
        encoder = GraphTransformerEncoder(
            task.schema,
            node_table_size=cfg.node_table_size or None,
            num_layers=cfg.encoder_layers,
            embed_dim=cfg.encoder_embed_dim,
            ffn_dim=cfg.encoder_ffn_embed_dim or None,
            num_heads=cfg.encoder_attention_heads,
            edge_features=not cfg.no_edge_features,
            full_graph=cfg.full_graph,
            pair_features=not cfg.no_pair_features,
            pos_enc=cfg.pos_enc,
            lap_pe_dim=cfg.lap_pe_dim,
            wl_rows=cfg.wl_rows,
            wl_rounds=cfg.wl_rounds,
            norm=cfg.norm,
            input_dropout=cfg.input_dropout,
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            act_dropout=cfg.act_dropout,
            attention_form=cfg.attention_form,
        )
        head = MLPHead.halving(cfg.encoder_embed_dim, 2, task.targets.num_outputs)
        return cls(encoder, head, task.targets.level, cfg.readout)


# Table 1; ten layers everywhere.


@register_model_architecture("gt", "gt_zinc")
def gt_zinc(cfg) -> None:
    set_defaults(cfg, encoder_embed_dim=64, lap_pe_dim=8)


@register_model_architecture("gt", "gt_sbm")
def gt_sbm(cfg) -> None:
    # 2 eigenvectors on PATTERN, 10 on CLUSTER; 100 WL roles on both (Table 3).
    set_defaults(cfg, encoder_embed_dim=80, lap_pe_dim=2, wl_rows=100)


@register_model_architecture("gt", "gt_wide")
def gt_wide(cfg) -> None:
    # Table 1 and section B.3.1 of Ying et al. 2021 (arXiv:2106.05234), on PCQM4M.
    set_defaults(cfg, encoder_embed_dim=768, lap_pe_dim=4)
