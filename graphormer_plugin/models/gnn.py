"""Message-passing baselines of the papers' tables, over the layers of PyTorch Geometric.

The models without a suffix have the depth and, nearly, the number of weights of the 500k
models of Dwivedi et al. 2020 (arXiv:2003.00982) and Corso et al. 2020 (PNA, MPNN): 16
layers, BatchNorm, residual connections, and a head with two hidden layers. Those called
pcqm4m are the baselines of OGB's large-scale challenge (Hu et al. 2021,
arXiv:2103.09430): 5 layers of width 600, sums, a linear head; `--virtual-node` adds to
them what their tables call VN. Differences:

- GCN: PyG's layer divides by the roots of both degrees, where the 500k model takes the
  mean of the neighbours. It reads no bonds; OGB's does (42,000 weights more, of 2.0M).
- GIN: one head on the last layer, where the 500k model adds up one per layer.
  `gin_pcqm4m` is a preset of `gine`: OGB's GIN has bonds in its messages.
- GatedGCN: see `graphormer_plugin.modules.message_passing.gatedgcn`. The tables' is the
  one with Laplacian eigenvectors, `--lap-pe-dim`.
- MPNN: with a matrix per bond, where the tables' MPNN (sum) has PNA's messages.
- No ReLU after the last layer, as in OGB's code; the 500k models have one there.
"""

from dataclasses import dataclass, field
from typing import Any

from fairseq.models import register_model, register_model_architecture

from graphormer_plugin.modules import LinearHead, MessagePassingEncoder, MLPHead
from graphormer_plugin.modules.choices import check_choice

from ._base import EncoderConfig, GraphModel, set_defaults

HEAD_STYLES = ("mlp", "linear")


def width(default: int) -> Any:
    """Field of a config: the width."""
    return field(default=default, metadata={"help": "width D"})


@dataclass
class MessagePassingConfig(EncoderConfig):
    """Options of all baselines."""

    encoder_layers: int = field(default=16, metadata={"help": "number of layers, >= 1"})
    dropout: float = field(
        default=0.0,
        metadata={"help": "dropout on what a layer adds to its input, 0 <= p < 1"},
    )
    virtual_node: bool = field(
        default=False,
        metadata={"help": "a vector per graph that all its nodes read and write"},
    )
    lap_pe_dim: int = field(
        default=0,
        metadata={"help": "Laplacian eigenvectors in the node input (k); 0: none"},
    )
    norm: str = field(
        default="batch", metadata={"help": "normalisation: batch, layer or none"}
    )
    no_residual: bool = field(
        default=False, metadata={"help": "a layer replaces its input"}
    )
    readout: str = field(
        default="mean", metadata={"help": "of the nodes of a graph: mean, sum or max"}
    )
    head_style: str = field(
        default="mlp",
        metadata={"help": "mlp, with hidden layers of D / 2 and D / 4, or linear"},
    )


class MessagePassingModel(GraphModel):
    """`MessagePassingEncoder` with a head on graphs or nodes."""

    conv = ""

    @classmethod
    def build_model(cls, cfg: MessagePassingConfig, task) -> "MessagePassingModel":
        check_choice("head_style", cfg.head_style, HEAD_STYLES)
        encoder = MessagePassingEncoder(
            cls.conv,
            task.schema,
            num_layers=cfg.encoder_layers,
            embed_dim=cfg.encoder_embed_dim,
            node_table_size=cfg.node_table_size or None,
            norm=cfg.norm,
            residual=not cfg.no_residual,
            virtual_node=cfg.virtual_node,
            dropout=cfg.dropout,
            lap_pe_dim=cfg.lap_pe_dim,
            **cls.conv_options(cfg, task),
        )
        dim, outputs = cfg.encoder_embed_dim, task.targets.num_outputs
        if cfg.head_style == "mlp":
            head = MLPHead.halving(dim, 2, outputs)
        else:
            head = LinearHead(dim, outputs)
        return cls(encoder, head, task.targets.level, cfg.readout)

    @staticmethod
    def conv_options(cfg: Any, task) -> dict[str, Any]:
        """Arguments of the layer beside width and norm."""
        return {}


@dataclass
class GCNConfig(MessagePassingConfig):
    """Options of GCN."""

    encoder_embed_dim: int = width(172)


@register_model("gcn", dataclass=GCNConfig)
class GCNModel(MessagePassingModel):
    """Graph convolutional network, without bonds."""

    conv = "gcn"


@dataclass
class GINConfig(MessagePassingConfig):
    """Options of GIN and GINE."""

    encoder_embed_dim: int = width(124)
    encoder_ffn_embed_dim: int = field(
        default=124, metadata={"help": "inner width of the network in a layer"}
    )
    readout: str = field(
        default="sum", metadata={"help": "of the nodes of a graph: mean, sum or max"}
    )


@register_model("gin", dataclass=GINConfig)
class GINModel(MessagePassingModel):
    """Graph isomorphism network, without bonds."""

    conv = "gin"

    @staticmethod
    def conv_options(cfg: GINConfig, task) -> dict[str, Any]:
        return {"hidden_dim": cfg.encoder_ffn_embed_dim}


@register_model("gine", dataclass=GINConfig)
class GINEModel(GINModel):
    """Graph isomorphism network with bonds in its messages."""

    conv = "gine"


@dataclass
class GATConfig(MessagePassingConfig):
    """Options of GAT."""

    encoder_embed_dim: int = width(176)
    encoder_attention_heads: int = field(
        default=8, metadata={"help": "attention heads H, divide the width"}
    )
    attention_dropout: float = field(
        default=0.0, metadata={"help": "dropout on attention weights, 0 <= p < 1"}
    )
    edge_features: bool = field(
        default=False,
        metadata={"help": "bonds enter the scores, which those of the tables do not"},
    )


@register_model("gat", dataclass=GATConfig)
class GATModel(MessagePassingModel):
    """Graph attention network."""

    conv = "gat"

    @staticmethod
    def conv_options(cfg: GATConfig, task) -> dict[str, Any]:
        return {
            "num_heads": cfg.encoder_attention_heads,
            "attention_dropout": cfg.attention_dropout,
            "bonds": cfg.edge_features,
        }


@dataclass
class GatedGCNConfig(MessagePassingConfig):
    """Options of GatedGCN."""

    encoder_embed_dim: int = width(66)


@register_model("gatedgcn", dataclass=GatedGCNConfig)
class GatedGCNModel(MessagePassingModel):
    """Residual gated graph convolutional network with bonds."""

    conv = "gatedgcn"


@dataclass
class GraphSAGEConfig(MessagePassingConfig):
    """Options of GraphSAGE."""

    encoder_embed_dim: int = width(101)


@register_model("graphsage", dataclass=GraphSAGEConfig)
class GraphSAGEModel(MessagePassingModel):
    """GraphSAGE by maxima, without bonds."""

    conv = "graphsage"


@dataclass
class PNAConfig(MessagePassingConfig):
    """Options of PNA."""

    encoder_embed_dim: int = width(75)
    towers: int = field(
        default=5, metadata={"help": "independent parts of a layer, divide the width"}
    )
    readout: str = field(
        default="sum", metadata={"help": "of the nodes of a graph: mean, sum or max"}
    )


@register_model("pna", dataclass=PNAConfig)
class PNAModel(MessagePassingModel):
    """Principal neighbourhood aggregation with bonds.

    It scales by degree, relative to the mean log degree of the training split. The task
    measures it for a new model, and it is a buffer, so that weights bring their own.
    Without data (`build_model` from Python) it is 1 until weights are loaded.
    """

    conv = "pna"

    @staticmethod
    def conv_options(cfg: PNAConfig, task) -> dict[str, Any]:
        measure = getattr(task, "mean_log_degree", lambda: None)
        return {"num_towers": cfg.towers, "mean_log_degree": measure() or 1.0}


@dataclass
class MPNNConfig(MessagePassingConfig):
    """Options of MPNN."""

    encoder_embed_dim: int = width(30)


@register_model("mpnn", dataclass=MPNNConfig)
class MPNNModel(MessagePassingModel):
    """Message passing with a matrix per bond."""

    conv = "mpnn"


# Baselines of PCQM4M (Table 1 of Ying et al. 2021).


def _pcqm4m(cfg) -> None:
    set_defaults(
        cfg,
        encoder_layers=5,
        encoder_embed_dim=600,
        no_residual=True,
        readout="sum",
        head_style="linear",
    )


@register_model_architecture("gcn", "gcn_pcqm4m")
def gcn_pcqm4m(cfg) -> None:
    _pcqm4m(cfg)


@register_model_architecture("gine", "gin_pcqm4m")
def gin_pcqm4m(cfg) -> None:
    set_defaults(cfg, encoder_ffn_embed_dim=600)
    _pcqm4m(cfg)
