"""GPS: Recipe for a General, Powerful, Scalable Graph Transformer (Rampášek et al. 2022).

Every layer has message passing and attention side by side. Formulas and settings are those
of the released code (rampasek/GraphGPS), with whose layers ours agree. No configuration of
its has a bias in the attention; `--attention`, `--gaussian-kernels` and `--pair-encodings`
give it one (our choice).

Differences from the released code:

- The last layer of GatedGCN does not update edges, because nothing reads them (2 D weights,
  those of a BatchNorm).
- `gps_peptides` maps Laplacian eigenvectors linearly; the released code has a network over
  eigenvectors and eigenvalues.
- Local parts are those of `models/gnn.py` without their activation and norm; GatedGCN has
  both, as in the released layer. `pna_simple` has dropout on its sum with the nodes.
- The bonds of a molecule with several columns have the sum of a vector per column.

GELU and a head of width D are those of the GPS that Tönshoff et al. 2023 tuned for
Peptides-func (toenshoff/LRGB), whose head, GraphGym's, has ReLU.

Our choice, where the sources leave it open: the head of ZINC everywhere, ReLU, 16 channels
of eigenvectors in `gps_peptides`, and no dropout but that of ZINC's attention.
"""

from dataclasses import dataclass

from graphormer_plugin.choices import check_choice
from graphormer_plugin.models._base import GraphModel, TransformerConfig
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import GPSEncoder, GPSEncoderConfig, MLPHead, option


@dataclass
class GPSConfig(GPSEncoderConfig, TransformerConfig):
    """Options of GPS's encoder and read-out."""

    readout: str = option("sum", "read-out of the nodes of a graph: mean, sum or max")
    head_style: str = option(
        "mlp",
        "mlp, with hidden layers of D / 2 and D / 4; or wide, with one of D, divided by "
        "its L2 norm",
    )


_GATED = {"local_part": "gatedgcn", "readout": "mean", "attention_dropout": 0.0}


@register_model(
    "gps",
    GPSConfig,
    gps_zinc={},
    gps_peptides={
        "encoder_layers": 4,
        "encoder_embed_dim": 96,
        "node_encodings": "laplacian:10",
        "node_encoding_dim": 16,  # our choice
        **_GATED,
    },
    gps_medium={
        "encoder_embed_dim": 384,
        "encoder_attention_heads": 16,
        "node_encodings": "random_walks:16",
        "node_encoding_dim": 20,
        **_GATED,
    },
)
class GPSModel(GraphModel):
    """`GPSEncoder` with a network on graphs or nodes."""

    @classmethod
    def build_model(cls, cfg: GPSConfig, task) -> "GPSModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        encoder = GPSEncoder(task.schema, cfg, task.mean_log_degree)
        check_choice("head_style", cfg.head_style, ("mlp", "wide"))
        dim, outputs = cfg.encoder_embed_dim, task.targets.num_outputs
        activation = "silu" if cfg.activation_fn == "silu" else "relu"
        head = MLPHead.halving(dim, 2, outputs, activation)
        if cfg.head_style == "wide":
            head = MLPHead([dim, dim, outputs], activation, unit_norm=True)
        return cls(encoder, head, task.targets.level, cfg.readout)
