"""GRIT: Graph Inductive Biases in Transformers without Message Passing (Ma et al. 2023).

https://arxiv.org/abs/2305.17589, and its released code (LiamMa/GRIT), whose formulas and
settings these are. Its options `signed_sqrt`, `sqrt_relu` and `scaled_attn` change nothing
there and are not here; `posenc_RWPSE` of its PCQM4Mv2 settings, which its code refuses, is
taken as random walks. The gradient of the root at 0, infinite, is taken as 0. The last layer
has no update of pairs, which nothing reads (D^2 + 3 D weights).
"""

from dataclasses import dataclass

from graphormer_plugin.choices import check_choice
from graphormer_plugin.models._base import GraphModel, TransformerConfig
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    GRITEncoder,
    GRITEncoderConfig,
    LinearHead,
    MLPHead,
    option,
)


@dataclass
class GRITConfig(GRITEncoderConfig, TransformerConfig):
    """Options of GRIT's encoder and read-out."""

    readout: str = option("sum", "read-out of the nodes of a graph: mean, sum or max")
    head_style: str = option(
        "mlp", "mlp, with hidden layers of D / 2 and D / 4; or linear"
    )


@register_model(
    "grit",
    GRITConfig,
    grit_zinc={},
    grit_peptides_func={
        "encoder_layers": 4,
        "encoder_embed_dim": 96,
        "encoder_attention_heads": 4,
        "attention_dropout": 0.5,
        "walk_steps": 17,
        "readout": "mean",
        "head_style": "linear",
    },
    grit_pcqm4mv2={
        "encoder_layers": 16,
        "encoder_embed_dim": 256,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "walk_steps": 16,
        "activation_fn": "gelu",
        "readout": "mean",
    },
)
class GRITModel(GraphModel):
    """`GRITEncoder` with a network on graphs or nodes."""

    @classmethod
    def build_model(cls, cfg: GRITConfig, task) -> "GRITModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        check_choice("head_style", cfg.head_style, ("mlp", "linear"))
        encoder = GRITEncoder(task.schema, cfg)
        dim = cfg.encoder_embed_dim
        outputs = task.targets.num_outputs
        if cfg.head_style == "linear":
            head = LinearHead(dim, outputs)
        else:
            head = MLPHead.halving(dim, 2, outputs, cfg.activation_fn)
        return cls(encoder, head, task.targets.level, cfg.readout)
