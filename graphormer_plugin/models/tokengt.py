"""TokenGT: Pure Transformers are Powerful Graph Learners (Kim et al. 2022).

https://arxiv.org/abs/2207.02505, and its released code (jw9730/tokengt), whose names the
options have. `tokengt_base` is the network of PCQM4Mv2; it has no identifiers of nodes until
`--lap-node-id` or `--orf-node-id` is given. `tokengt_small` has the width and depth of
`graphormer_slim` and Laplacian identifiers (our choice). The released Performer is not here.
"""

from dataclasses import dataclass

from graphormer_plugin.models._base import GraphModel, TransformerConfig, sizes
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    TokenGTEncoder,
    TokenGTEncoderConfig,
    TransformHead,
)


@dataclass
class TokenGTConfig(TokenGTEncoderConfig, TransformerConfig):
    """Options of TokenGT's encoder."""


_RELEASED = {"dropout": 0.0, "attention_dropout": 0.1, "act_dropout": 0.1}
_TABLES = {"num_atoms": 4608, "num_edges": 1536}
_BASE = {**_RELEASED, **sizes(layers=12, width=768, heads=32), **_TABLES}


@register_model(
    "tokengt",
    TokenGTConfig,
    tokengt_small={
        **_RELEASED,
        **sizes(layers=12, width=80, heads=8),
        "lap_node_id": True,
        "lap_node_id_sign_flip": True,
        "type_id": True,
    },
    tokengt_base={**_BASE, "type_id": True},
    tokengt_base_ablated=_BASE,
)
class TokenGTModel(GraphModel):
    """`TokenGTEncoder` with a head on the token of the graph, or on each node."""

    @classmethod
    def build_model(cls, cfg: TokenGTConfig, task) -> "TokenGTModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        encoder = TokenGTEncoder(task.schema, cfg)
        outputs = task.targets.num_outputs
        head = TransformHead(cfg.encoder_embed_dim, outputs, "gelu")
        head.apply(encoder.initialise)
        return cls(encoder, head, task.targets.level)
