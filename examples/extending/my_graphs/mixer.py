"""An architecture: nodes average each other with weights that depend only on pairs."""

from dataclasses import dataclass

from torch import Tensor, nn

from graphormer_plugin.models import GraphModel, PairConfig, register_model
from graphormer_plugin.modules import (
    AttnBias,
    Encoder,
    EncoderLayer,
    LinearHead,
    NodeEncoder,
    Vocabularies,
    make_pair_terms,
    option,
)


class Mixing(nn.Module):
    """Weighted means of the nodes, one per head; weights are the softmax of a bias.

    Args:
        embed_dim: width D.
        num_heads: H, divides D.
    """

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.value = nn.Linear(embed_dim, embed_dim)
        self.output = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, attn_bias: Tensor) -> Tensor:
        """x [B, N, D] and attn_bias [B, H, N, N] -> [B, N, D]."""
        value = self.value(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        mixed = self.attention_weights(x, attn_bias) @ value  # [B, H, N, D / H]
        return self.output(mixed.transpose(1, 2).flatten(2))

    def attention_weights(self, x: Tensor, attn_bias: Tensor) -> Tensor:
        """Weights [B, H, N, N], for ``graphormer-explain``."""
        return attn_bias.softmax(-1).to(x.dtype)


@dataclass
class MixerConfig(PairConfig):
    """Options of the mixer, in addition to the options of every Transformer encoder."""

    pair_encodings: str = option(
        "common_neighbours,random_walks",
        "encodings that the weights depend on, comma-separated",
    )


class MixerEncoder(Encoder):
    """Layers of `Mixing` and a feed-forward network.

    Args:
        vocabularies: values of nodes and bonds.
        config: sizes and options.
    """

    def __init__(self, vocabularies: Vocabularies, config: MixerConfig) -> None:
        super().__init__()
        embed_dim, num_heads = config.encoder_embed_dim, config.encoder_attention_heads
        pairs = make_pair_terms(config, vocabularies, num_heads)
        self.embed_dim = embed_dim
        self.node_encoder = NodeEncoder(vocabularies, config)
        self.attn_bias = AttnBias(num_heads, virtual_node=False, further=pairs)
        self.layers = nn.ModuleList(
            EncoderLayer(
                Mixing(embed_dim, num_heads),
                embed_dim,
                config.encoder_ffn_embed_dim,
                config.dropout,
            )
            for _ in range(config.encoder_layers)
        )
        self.final_norm = nn.LayerNorm(embed_dim)

    @property
    def fields(self) -> frozenset[str]:
        return self.attn_bias.required_fields

    def forward(
        self, batch: dict[str, Tensor], perturb: Tensor | None = None
    ) -> Tensor:
        pairs = self.attn_bias.further.inputs(batch)
        x = self.node_encoder(batch) + pairs.nodes
        if perturb is not None:
            x = x + perturb.to(x.dtype)
        attn_bias = self.attn_bias(batch, pairs)
        for layer in self.layers:
            x = layer(x, attn_bias)
        return self.final_norm(x)


@register_model(
    "mixer",
    MixerConfig,
    mixer_small={
        "encoder_layers": 4,
        "encoder_embed_dim": 64,
        "encoder_ffn_embed_dim": 64,
        "encoder_attention_heads": 8,
    },
)
class MixerModel(GraphModel):
    """`MixerEncoder` with a linear head on the mean of the nodes, or on each."""

    @classmethod
    def build_model(cls, cfg: MixerConfig, task) -> "MixerModel":
        encoder = MixerEncoder(task.schema, cfg)
        head = LinearHead(cfg.encoder_embed_dim, task.targets.num_outputs)
        return cls(encoder, head, task.targets.level)
