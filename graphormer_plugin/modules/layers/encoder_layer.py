"""Transformer layer: residual, normalisation and feed-forward network around any attention."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import TransformerEncoderConfig


def gelu_float32(x: Tensor) -> Tensor:
    """GELU computed in float32 at least; fairseq also rounds float64."""
    return F.gelu(x.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_float32": gelu_float32,
    "relu": F.relu,
    "silu": F.silu,
}


class EncoderLayer(nn.Module):
    """Transformer layer, h' = h + A(LN(h)); h'' = h' + FFN(LN(h')) (Eq. 8-9 of Ying et
    al. 2021), or with the normalisation after each sum.

    Args:
        attention: called as `attention(x, *attention_args)`, [B, T, D] -> [B, T, D].
        ffn_dim: inner width of the feed-forward network.
        dropout: rate after the attention and after the feed-forward network.
        act_dropout: rate after the activation of the feed-forward network.
        pre_layernorm: normalise before each half, or after each sum, LN(h + A(h)).
        norm: width -> normalisation; `MaskedBatchNorm` reads the `rows` of `forward`.
    """

    def __init__(
        self,
        attention: nn.Module,
        embed_dim: int,
        ffn_dim: int,
        dropout: float = 0.0,
        act_dropout: float = 0.0,
        activation: str = "gelu",
        pre_layernorm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, tuple(ACTIVATIONS))
        check_least("ffn_dim", ffn_dim, 1)
        self.attention = attention
        self.attention_norm = norm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.ffn_norm = norm(embed_dim)
        self.dropout = Dropout(dropout)
        self.act_dropout = Dropout(act_dropout)
        self.activation = ACTIVATIONS[activation]
        self.pre_layernorm = pre_layernorm

    def forward(
        self, x: Tensor, *attention_args: Any, rows: Tensor | None = None
    ) -> Tensor:
        """x [B, T, D], rows of `MaskedBatchNorm` -> [B, T, D]."""
        counting = () if rows is None else (rows,)
        if self.pre_layernorm:
            normed = self.attention_norm(x, *counting)
            x = x + self.dropout(self.attention(normed, *attention_args))
            return x + self.feed_forward(self.ffn_norm(x, *counting))
        x = x + self.dropout(self.attention(x, *attention_args))
        x = self.attention_norm(x, *counting)
        return self.ffn_norm(x + self.feed_forward(x), *counting)

    def feed_forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        return self.dropout(self.fc2(self.act_dropout(self.activation(self.fc1(x)))))


def encoder_layers(
    config: TransformerEncoderConfig,
    attention: Callable[[], nn.Module],
    *options: Any,
    **named_options: Any,
) -> nn.ModuleList:
    """Layers of a config, each with an attention of its own; for the options see
    `EncoderLayer`."""
    return nn.ModuleList(
        EncoderLayer(
            attention(),
            config.encoder_embed_dim,
            config.encoder_ffn_embed_dim,
            config.dropout,
            config.act_dropout,
            *options,
            **named_options,
        )
        for _ in range(config.encoder_layers)
    )
