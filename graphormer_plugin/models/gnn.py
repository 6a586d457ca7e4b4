"""Message-passing baselines of the papers' tables.

`gcn`, `gin`, `gat`, `gatedgcn` and `graphsage` are the 500k models of Dwivedi et al. 2020
(arXiv:2003.00982), `pna` and `mpnn` the models of Corso et al. 2020 (arXiv:2004.05718);
`gine` is GIN with bonds in its messages, and in no table. They have 16 layers, BatchNorm and
residual connections, and start as the released code: torch's defaults, but GAT
(Xavier-normal), and PNA and MPNN (small Xavier-uniform, biases 0). On ZINC their numbers
of weights are as published. Differences:

- PNA and MPNN: the released network had weights that it did not use (in each tower a map
  of the width and a vector of twice the width; 17,920 of 387,155 and 42,240 of 480,805).
- PNA's flag "divide the input among the towers" is False in its command, but read as
  True; the published number needs True, and so it is here.
- GatedGCN: the last layer does not update edges, because nothing reads them (156 weights
  of 505,011). Without bonds all edges start from one vector; the released code maps the
  number 1 (D weights more).
- GIN: the 17 biases of its read-out are one (16 of 509,549).
- Dropout is on the term that a layer adds. The 500k models of Dwivedi et al. have it on the
  sum, and GAT also on its input; all are trained with rate 0.
- A node without neighbours gets zeros; the benchmarks do not have such nodes.
- Laplacian eigenvectors (GatedGCN) have a random sign per graph and eigenvector; the
  released code draws a sign per batch and eigenvector.

`gcn_pcqm4m` and `gin_pcqm4m` are the baselines of OGB's large-scale challenge (Hu et al.
2021, arXiv:2103.09430): 5 layers of width 600, bonds in the messages, tables that start
Xavier-uniform, no residual connections, no ReLU after the last layer, sums and a linear
head; `--virtual-node` adds the "VN" of their tables. In evaluation OGB clamps its
predictions, `--clamp-max` (0..50 eV for PCQM4M, 0..20 eV for PCQM4Mv2).

`gcn_peptides` is the GCN that Tönshoff et al. 2023 tuned for Peptides-func
(toenshoff/LRGB): six layers of width 235 with symmetric degrees, GELU and no norm. Its
head is GraphGym's, with ReLU.

`pna_simple` has the simple layer of PNA's released code: no towers, maps of messages or
bonds, and dropout on the sum of a layer and its input. `pna_molhiv` is the model that OGB's
leaderboard has for molhiv, with 4 layers of width 80 and OGB's tables of atoms: 326,161
weights, where Table 3 of Ying et al. 2021 has 326K.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.data.columns import LINK_LEVELS, Level
from graphormer_plugin.models._base import EncoderConfig, GraphModel
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    CONVOLUTIONS,
    LayersHead,
    LinearHead,
    MessagePassingEncoder,
    MessagePassingEncoderConfig,
    MLPHead,
    defaults,
    option,
)
from graphormer_plugin.modules.layers.sparse import Batch

HEAD_STYLES = ("mlp", "wide", "linear", "layers")
# Options of a convolution, and the fields of a config that have them.
OPTIONS = {
    "hidden_dim": "encoder_ffn_embed_dim",
    "num_heads": "encoder_attention_heads",
    "attention_dropout": "attention_dropout",
    "edge_dim": "edge_dim",
    "num_towers": "towers",
}

# Baselines of PCQM4M (Table 1 of Ying et al. 2021).
_PCQM4M = {
    "encoder_layers": 5,
    "encoder_embed_dim": 600,
    "no_residual": True,
    "readout": "sum",
    "head_style": "linear",
    "linear_last_layer": True,
    "xavier_embeddings": True,
}


@dataclass
class MessagePassingConfig(MessagePassingEncoderConfig, EncoderConfig):
    """Options of all baselines."""

    readout: str = option("mean", "read-out of the nodes of a graph: mean, sum or max")
    head_style: str = option(
        "mlp",
        "mlp, with hidden layers of D / 2 and D / 4; wide, with two of D, divided by "
        "their L2 norm; linear; or layers, a linear map of the output of every layer, for "
        "edges and links of the last",
    )
    clamp_max: float = option(
        0.0,
        "largest prediction in evaluation, in the unit of the targets, which must be "
        "numbers; predictions are clamped to 0..X; 0: off",
        run_only=True,
    )


class MessagePassingModel(GraphModel):
    """`MessagePassingEncoder` with a head on graphs or nodes."""

    conv = ""
    # Lowest and largest output, at the scale of training.
    clamp_range: Tensor | None = None

    @classmethod
    def build_model(cls, cfg: MessagePassingConfig, task) -> "MessagePassingModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        check_choice("head_style", cfg.head_style, HEAD_STYLES)
        with_bonds = getattr(cfg, "edge_features", False)  # an option of GCN and GAT
        conv = f"{cls.conv}_bonds" if with_bonds else cls.conv
        if getattr(cfg, "symmetric", False):  # an option of GCN
            if with_bonds:
                raise ValueError(
                    "symmetric: edge_features has symmetric degrees already"
                )
            conv = "gcn_symmetric"
        names = CONVOLUTIONS[conv].options
        options = {
            name: getattr(cfg, field)
            for name, field in OPTIONS.items()
            if name in names
        }
        if "mean_log_degree" in names:
            options["mean_log_degree"] = task.mean_log_degree() or 1.0
        encoder = MessagePassingEncoder(conv, task.schema, cfg, **options)
        dim = cfg.encoder_embed_dim
        outputs = task.targets.num_outputs
        head: nn.Module = LinearHead(dim, outputs)
        if cfg.head_style == "mlp":
            head = MLPHead.halving(dim, 2, outputs)
        elif cfg.head_style == "wide":
            head = MLPHead([dim, dim, dim, outputs], unit_norm=True)
        elif cfg.head_style == "layers" and task.targets.level not in LINK_LEVELS:
            head = LayersHead(dim, cfg.encoder_layers, outputs)
        check_least("clamp_max", cfg.clamp_max, 0)
        model = cls(encoder, head, task.targets.level, cfg.readout)
        if cfg.clamp_max:
            if not task.targets.kind.is_number:
                raise ValueError(
                    f"--clamp-max {cfg.clamp_max}: the targets are classes"
                )
            limits = torch.tensor([[0.0], [cfg.clamp_max]], dtype=torch.float64)
            model.clamp_range = task.targets.standardise(limits.expand(-1, outputs))
            model.register_forward_hook(_clamp)
        return model

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `GraphModel`."""
        if isinstance(self.head, LayersHead):
            x = self.encoder.all_layers(batch, perturb)
            if self.level is Level.GRAPH:
                x = self.graphs(x, batch["node_mask"])
            return self.head(x)
        return super().forward(batch, perturb)


def _clamp(model: MessagePassingModel, arguments: Any, output: Tensor) -> Tensor:
    """Forward hook, because it must come after `join_graph_features`."""
    if model.training:
        return output
    least, largest = model.clamp_range.to(output)
    return output.clamp(least, largest)


@dataclass
@defaults(encoder_embed_dim=172)
class GCNConfig(MessagePassingConfig):
    """Options of GCN."""

    edge_features: bool = option(
        False, "OGB's GCN: bonds in the messages, symmetric degrees"
    )
    symmetric: bool = option(
        False,
        "GCN as first published: symmetric degrees, the node among its neighbours",
    )


@register_model(
    "gcn",
    GCNConfig,
    gcn_pcqm4m={**_PCQM4M, "edge_features": True},
    gcn_peptides={
        "encoder_layers": 6,
        "encoder_embed_dim": 235,
        "symmetric": True,
        "norm": "none",
        "activation_fn": "gelu",
        "dropout": 0.1,
        "node_encodings": "random_walks:20",
        "node_encoding_dim": 28,
        "head_style": "wide",
        "xavier_embeddings": True,
    },
)
class GCNModel(MessagePassingModel):
    """Graph convolutional network: the mean of the neighbours."""

    conv = "gcn"


@dataclass
@defaults(encoder_embed_dim=124, readout="sum")
class GINConfig(MessagePassingConfig):
    """Options of GIN and GINE."""

    encoder_ffn_embed_dim: int = option(124, "inner width of the network in a layer")
    head_style: str = option("layers", "mlp, wide, linear or layers (see gcn)")


@register_model("gin", GINConfig)
class GINModel(MessagePassingModel):
    """Graph isomorphism network, without bonds."""

    conv = "gin"


@register_model("gine", GINConfig, gin_pcqm4m={**_PCQM4M, "encoder_ffn_embed_dim": 600})
class GINEModel(GINModel):
    """Graph isomorphism network with bonds in its messages."""

    conv = "gine"


@dataclass
@defaults(encoder_embed_dim=176)
class GATConfig(MessagePassingConfig):
    """Options of GAT."""

    encoder_attention_heads: int = option(8, "attention heads H, divide the width")
    attention_dropout: float = option(0.0, "dropout on attention weights, 0 <= p < 1")
    edge_features: bool = option(
        False, "bonds enter the scores; the models of the tables do not read them"
    )


@register_model("gat", GATConfig)
class GATModel(MessagePassingModel):
    """Graph attention network."""

    conv = "gat"


@dataclass
@defaults(encoder_embed_dim=78)
class GatedGCNConfig(MessagePassingConfig):
    """Options of GatedGCN."""


@register_model("gatedgcn", GatedGCNConfig)
class GatedGCNModel(MessagePassingModel):
    """Residual gated graph convolutional network; edges have vectors of their own."""

    conv = "gatedgcn"


@dataclass
@defaults(encoder_embed_dim=101)
class GraphSAGEConfig(MessagePassingConfig):
    """Options of GraphSAGE."""


@register_model("graphsage", GraphSAGEConfig)
class GraphSAGEModel(MessagePassingModel):
    """GraphSAGE by maxima, without bonds."""

    conv = "graphsage"


@dataclass
@defaults(encoder_embed_dim=70, readout="sum")
class PNAConfig(MessagePassingConfig):
    """Options of PNA and MPNN."""

    edge_dim: int = option(40, "width of bond vectors; 0: bonds are not read")
    towers: int = option(5, "independent parts of a layer, divide the width")


@register_model("pna", PNAConfig)
class PNAModel(MessagePassingModel):
    """Principal neighbourhood aggregation with bonds.

    It scales by degree, relative to the mean log degree of the training split. The task
    measures this mean for a new model; it is a buffer, which the weights bring with them.
    Without data (`build_model` from Python) it is 1 until weights are loaded.
    """

    conv = "pna"


@dataclass
@defaults(encoder_layers=4, encoder_embed_dim=80)
class PNASimpleConfig(MessagePassingConfig):
    """Options of PNA with simple layers."""

    dropout: float = option(
        0.0, "dropout on the sum of a layer and its input, 0 <= p < 1"
    )


@register_model(
    "pna_simple",
    PNASimpleConfig,
    # Baseline of molhiv (Table 3 of Ying et al. 2021).
    pna_molhiv={"dropout": 0.3, "xavier_embeddings": True},
)
class PNASimpleModel(MessagePassingModel):
    """PNA without towers, maps of messages and bonds."""

    conv = "pna_simple"


@dataclass
@defaults(encoder_embed_dim=110)
class MPNNConfig(PNAConfig):
    """Options of MPNN."""


@register_model("mpnn", MPNNConfig)
class MPNNModel(PNAModel):
    """Sum of the messages of PNA, unscaled: MPNN (sum) of Corso et al. 2020."""

    conv = "mpnn"
