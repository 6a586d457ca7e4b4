"""GRPE: Relative Positional Encoding for Graph Transformer (Park et al. 2022).

https://arxiv.org/abs/2201.12787. The model is the paper's. The released code
(lenscloth/GRPE) differs from it:

- The key term of Eq. 6-7 takes the key of the attended node j; the code takes the key
  of the row i (`--key-from-row`).
- The virtual node also has the virtual relation to itself; in the code it is related to
  itself as a node is (`--virtual-is-self`).
- A node and itself have an edge vector of their own; the code overwrites it by "no edge".
- Distances beyond L have a vector of their own, P_far; the code gives them the vector
  of L.
- A node column has a row for each of its codes; the code for molecules has 512
  (`--node-table-size 512`). It leaves training graphs of more than 128 nodes out; here
  they are kept.

A LayerNorm follows the last layer, as in the released code; no equation of the paper has it.

The paper does not state these details, which come from the code: weights start as torch's
layers do (linear maps uniform within +-1 / sqrt(inputs), all embeddings N(0, 1), the
virtual node zero), GELU, and the dropout rates.
"""

from dataclasses import dataclass

from graphormer_plugin.models._base import GraphModel, PairConfig, sizes
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    GRPEEncoder,
    GRPEEncoderConfig,
    LinearHead,
    MLPHead,
    option,
)


@dataclass
class GRPEConfig(GRPEEncoderConfig, PairConfig):
    """Options of GRPE's encoder and head."""

    head_layers: int = option(
        0,
        "hidden layers of the head, as wide as the nodes, with GELU, >= 0 (last_mlp of"
        " the released code)",
    )


@register_model(
    "grpe",
    GRPEConfig,
    # Sizes of Table 1.
    grpe_tiny=sizes(layers=4, width=64, heads=8),
    grpe_small=sizes(layers=12, width=80, heads=8),
    grpe_standard=sizes(layers=12, width=768, heads=32),
    grpe_large=sizes(layers=18, width=1024, heads=32),
)
class GRPEModel(GraphModel):
    """`GRPEEncoder` with a linear head on the virtual node, else on the nodes' mean."""

    @classmethod
    def build_model(cls, cfg: GRPEConfig, task) -> "GRPEModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        encoder = GRPEEncoder(task.schema, cfg)
        width = cfg.encoder_embed_dim
        outputs = task.targets.num_outputs
        head = LinearHead(width, outputs)
        if cfg.head_layers:
            head = MLPHead([width] * (cfg.head_layers + 1) + [outputs], "gelu")
        return cls(encoder, head, task.targets.level)
