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

`exphormer_*` are Exphormer (Shirzad et al. 2023, arXiv:2303.06147) by its released code
(hamed1375/Exphormer), whose layers ours equal. Differences: eigenvectors are those of the
normalised Laplacian, with a random sign per graph, and are mapped linearly, where the released
code has a DeepSet (Peptides-func) or reads them in GatedGCN (the others); expander edges are
the same in every run; `--attention-dropout` acts, but is 0.

GELU and a head of width D are those of the GPS that Tönshoff et al. 2023 tuned for
Peptides-func (toenshoff/LRGB), whose head, GraphGym's, has ReLU.

Our choice, where the sources leave it open: the head of ZINC everywhere, ReLU, 16 channels
of eigenvectors in `gps_peptides`, and no dropout but that of ZINC's attention.
"""

from dataclasses import dataclass
from typing import Any

from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.data.batches.fields import FIELDS
from graphormer_plugin.data.batches.fields.expander import register_expander
from graphormer_plugin.models._base import GraphModel, TransformerConfig, sizes
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import GPSEncoder, GPSEncoderConfig, MLPHead, option
from graphormer_plugin.modules.encoders.gps import edge_set_fields


@dataclass
class GPSConfig(GPSEncoderConfig, TransformerConfig):
    """Options of GPS's encoder and read-out."""

    readout: str = option("sum", "read-out of the nodes of a graph: mean, sum or max")
    head_style: str = option(
        "mlp",
        "mlp, with hidden layers of D / 2 and D / 4; or wide, with hidden layers of D, each "
        "divided by its L2 norm",
    )
    head_layers: int = option(1, "hidden layers of --head-style wide, >= 0")


_GATED = {"local_part": "gatedgcn", "readout": "mean", "attention_dropout": 0.0}


def _exphormer(
    layers: int, width: int, heads: int, dropout: float, vectors: int, **options: Any
) -> dict[str, Any]:
    """Released settings of Exphormer, with a number of eigenvectors."""
    options |= _GATED | {"dropout": dropout, "act_dropout": dropout}
    options |= sizes(layers, width, heads) | {"encoder_ffn_embed_dim": 0}
    options["node_encodings"] = f"laplacian:{vectors}"
    return {
        "node_encoding_dim": 0,
        "attention": "edges",
        "head_style": "wide",
        **options,
    }


_SUPERPIXELS = _exphormer(
    5, 40, 4, 0.1, 8, edge_sets="random_expander:5", virtual_nodes=1
)


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
    exphormer_cifar10=_SUPERPIXELS,
    exphormer_mnist=_SUPERPIXELS,
    exphormer_pattern=_exphormer(
        4, 40, 4, 0.0, 10, edge_sets="random_expander:7", virtual_nodes=4, head_layers=2
    ),
    exphormer_cluster=_exphormer(
        20,
        32,
        8,
        0.1,
        10,
        edge_sets="random_expander:3",
        virtual_nodes=3,
        head_layers=2,
    ),
    exphormer_peptides_func=_exphormer(
        8, 64, 4, 0.12, 10, virtual_nodes=1, node_encoding_dim=16, head_layers=0
    ),
)
class GPSModel(GraphModel):
    """`GPSEncoder` with a network on graphs or nodes."""

    @classmethod
    def build_model(cls, cfg: GPSConfig, task) -> "GPSModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        for name in edge_set_fields(cfg):
            register_expander(name)
            field = FIELDS.get(f"{name}_index")
            if field is None or not field.column:
                raise ValueError(
                    f"edge_sets {name}: expected random_expander:5, hamiltonian_expander:5 or "
                    "a field per edge that a folder of yours registers"
                )
        encoder = GPSEncoder(task.schema, cfg, task.mean_log_degree)
        check_choice("head_style", cfg.head_style, ("mlp", "wide"))
        check_least("head_layers", cfg.head_layers, 0)
        dim = cfg.encoder_embed_dim
        outputs = task.targets.num_outputs
        activation = "silu" if cfg.activation_fn == "silu" else "relu"
        head = MLPHead.halving(dim, 2, outputs, activation)
        if cfg.head_style == "wide":
            widths = [dim] * (1 + cfg.head_layers)
            head = MLPHead([*widths, outputs], activation, unit_norm=True)
        return cls(encoder, head, task.targets.level, cfg.readout)
