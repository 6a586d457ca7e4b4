"""CGT: Self-Attention in Colors: Another Take on Encoding Graph Structure in
Transformers (Menegaux et al. 2023).

https://hal.science/hal-04105101. The attention (CSA) equals the released code
(inria-thoth/csa). Details that the paper leaves open come from this code:

- A linear map with bias follows the attention. 16 layers of width 256 then have 8.6M
  weights, as in the released code; the paper says 8.2M (Table 6) and 8.3M (Table 3), and
  `--output-projection low_rank` has 8.1M.
- The head for graphs has two hidden layers of D / 2 and D / 4, the head for nodes two of
  width D, the output of each divided by its L2 norm, which GraphGym does by default.
- The presets of PCQM4Mv2 have GELU, in the feed-forward network and in the head.
- `--dropout` also acts inside the feed-forward network, and "attention dropout" of Table 6
  drops connections (`--attention-dropout`).
- Pair features are as wide as the nodes; half of the width is the relative encoding.
- Additive rings: a vector is added, in the half of the bonds, to pairs in a common ring;
  bonded pairs have a vector of their own.
- Table 6 has 16 layers for CSA-small, which would be 8M weights; 2.8M are five.
- Weights start as torch's layers do. Several columns of a molecule's atoms or bonds start
  as OGB's encoders (xavier_uniform).

Differences from the released code:

- Rings are cycles without chords, as the paper says, in any graph (`data/batches/fields/rings.py`).
- Categorical rings double "self" and "no bond" as well as the bond types.
- Distances beyond p have a learned vector, as the paper says, not zero.
- The map of random walks and the shared maps to E^att and E^val have no bias. Classes
  of nodes (PATTERN, CLUSTER) have an embedding, not a linear map with bias. Columns of
  bonds are averaged, not summed.
- The bias of the last map of the head for graphs is added once per graph, after the sum
  over its nodes (`--head-before-readout`: once per node).
- PATTERN has two classes and a mean by their weights, not a single logit and a plain mean.
- The recipes change the learning rate per update, not per epoch.
- `--neighbours-only` leaves each node itself among its neighbours.
"""

from dataclasses import dataclass

from torch import Tensor

from graphormer_plugin.data.columns import Level
from graphormer_plugin.models._base import GraphModel, PairConfig
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import CGTEncoder, CGTEncoderConfig, MLPHead, option
from graphormer_plugin.modules.layers.sparse import Batch


@dataclass
class CGTConfig(CGTEncoderConfig, PairConfig):
    """Options of CGT's encoder, head and read-out."""

    head_layers: int = option(
        2, "hidden layers of the head for graphs, >= 0, each half as wide as its input"
    )
    no_head_unit_norm: bool = option(
        False, "hidden layers of the head for nodes are not divided by their L2 norm"
    )
    head_before_readout: bool = option(
        False,
        "nodes also pass through the head's last map before they are read out, as in "
        "the released code: a sum then has its bias once per node; for checkpoints "
        "imported from it",
    )
    readout: str = option("sum", "read-out of the nodes of a graph: sum, mean or max")


# Table 6. Optimiser: AdamW, cosine schedule with warm-up.
_ZINC = {"share_edge_encoding": True}
_SBM = {
    "node_encodings": "random_walks:16",
    "node_encoding_dim": 16,
    "relative_steps": 16,
}
_PCQM4MV2 = {
    "encoder_embed_dim": 256,
    "encoder_attention_heads": 16,
    "node_encodings": "none",
    "share_edge_encoding": True,
    "activation_fn": "gelu",
    "readout": "mean",
}


@register_model(
    "cgt",
    CGTConfig,
    cgt_zinc=_ZINC,
    cgt_zinc_rings={**_ZINC, "rings": "categorical"},
    cgt_pattern={**_SBM, "encoder_layers": 6},
    cgt_cluster={
        **_SBM,
        "encoder_layers": 16,
        "encoder_embed_dim": 48,
        "encoder_attention_heads": 8,
        "dropout": 0.1,
    },
    # With five layers (see above).
    cgt_small={**_PCQM4MV2, "encoder_layers": 5, "relative_steps": 16},
    cgt_deep={
        **_PCQM4MV2,
        "encoder_layers": 16,
        "relative_encoding": "spde",
        "relative_steps": 8,
        "rings": "additive",
        "max_ring_size": 6,
    },
)
class CGTModel(GraphModel):
    """`CGTEncoder` with a head on each node, whose results are read out for a graph."""

    head_before_readout = False

    @classmethod
    def build_model(cls, cfg: CGTConfig, task) -> "CGTModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        encoder = CGTEncoder(task.schema, cfg)
        width = cfg.encoder_embed_dim
        outputs = task.targets.num_outputs
        level = task.targets.level
        if level is not Level.GRAPH:
            widths = [width, width, width, outputs]
            head = MLPHead(widths, cfg.activation_fn, not cfg.no_head_unit_norm)
        else:
            head = MLPHead.halving(width, cfg.head_layers, outputs, cfg.activation_fn)
        model = cls(encoder, head, level, cfg.readout)
        model.head_before_readout = cfg.head_before_readout
        return model

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `GraphModel`."""
        if self.level is not Level.GRAPH:
            return super().forward(batch, perturb)
        x = self.encoder(batch, perturb)
        if self.head_before_readout:
            return self.graphs(self.head(x), batch["node_mask"])
        x = self.head.hidden(x)
        return self.head.projection(self.graphs(x, batch["node_mask"]))
