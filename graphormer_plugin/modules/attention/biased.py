"""Self-attention with an additive bias per pair.

`BiasedAttention.weights` is the formula. Which code runs instead:

- on a CPU in float32 and bfloat16: the compiled function;
- on a GPU: torch's fused attention, which has no second derivative (torch then says so).

`plain_attention` switches both off.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention

from graphormer_plugin.choices import check_heads
from graphormer_plugin.modules.attention.compiled import (
    compiled_attention,
    compiled_attention_fits,
    plain_only,
)
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.sparse import add_by_index, wide_type


def fused_attention(heads: Tensor, attn_bias: Tensor, dropout: float) -> Tensor:
    """torch's `scaled_dot_product_attention` of queries, keys and values [3, B, H, T, d].

    The fast kernels of a GPU take widths that are multiples of 8 in half precision and of 4
    in float32. Other heads are padded with zeros.
    """
    d = heads.shape[-1]
    if missing := -d % (8 if heads.element_size() == 2 else 4):
        heads = F.pad(heads, (0, missing))
    q, k, v = heads
    out = scaled_dot_product_attention(
        q, k, v, attn_bias, dropout_p=dropout, scale=d**-0.5
    )
    return out[..., :d]


class BiasedAttention(nn.Module):
    """softmax(Q K^T / sqrt(d) + bias) V, Eq. 6-7 of Ying et al. 2021
    (arXiv:2106.05234), with d = D / H.

    Args:
        float32_softmax: compute the softmax in float32 at least, as Graphormer's released
            code does in float32 and below.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        float32_softmax: bool = False,
    ) -> None:
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        self.dropout = Dropout(dropout)
        self.float32_softmax = float32_softmax
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self,
        x: Tensor,
        attn_bias: Tensor,
        pair_type: Tensor | None = None,
        pair_value: Tensor | None = None,
    ) -> Tensor:
        """
        Args:
            x: [B, T, D].
            attn_bias: [B, H, T, T], added to the scores of row i for column j; or [B, H, 1, T]
                for all rows.
            pair_type: [B, T, T] int64 in 0..R - 1, with `pair_value`.
            pair_value: [R, D], a vector that a pair of that type adds to its message:
                z_i = sum_j a_ij (v_j + pair_value[pair_type_ij]).

        Returns:
            [B, T, D].
        """
        B, T, D = x.shape
        qkv = self.qkv_proj(x)
        attn_bias = attn_bias.to(qkv.dtype)
        p = self.dropout.p if self.training else 0.0
        if compiled_attention_fits(qkv) and pair_type is None:
            out = compiled_attention(qkv, attn_bias=attn_bias, dropout=p)
            return self.out_proj(out)
        q, k, v = heads = self.heads(qkv)
        fused = x.device.type != "cpu" and pair_type is None and not plain_only()
        if fused:  # it sums in float32 at least
            out = fused_attention(heads, attn_bias.expand(-1, -1, T, -1), p)
        else:
            attention = self.dropout(self.weights(q, k, attn_bias))
            out = torch.bmm(attention, v.reshape(-1, T, v.shape[-1]))
            out = out.view(B, self.num_heads, T, -1)
            if pair_type is not None:
                attention = attention.view(B, -1, T, T)
                out = out + self.pair_messages(attention, pair_type, pair_value)
        return self.out_proj(out.transpose(1, 2).reshape(B, T, D))

    def heads(self, qkv: Tensor) -> Tensor:
        """[B, T, 3 D] -> queries, keys and values [3, B, H, T, D/H]."""
        return qkv.unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)

    def attention_weights(self, x: Tensor, attn_bias: Tensor, *_: Tensor) -> Tensor:
        """Attention weights of `forward` with the same arguments, without dropout:
        [B, H, T, T], row i for query i."""
        q, k, _ = self.heads(self.qkv_proj(x))
        weights = self.weights(q, k, attn_bias.to(q.dtype))
        return weights.view(q.shape[:3] + k.shape[2:3])

    def weights(self, q: Tensor, k: Tensor, attn_bias: Tensor) -> Tensor:
        """q, k [B, H, T, d], attn_bias [B, H, T, T] -> softmax [B * H, T, T]."""
        T, d = q.shape[2:]
        scores = torch.baddbmm(
            attn_bias.expand(-1, -1, T, -1).reshape(-1, T, T),
            q.reshape(-1, T, d),
            k.reshape(-1, T, d).transpose(1, 2),
            alpha=d**-0.5,
        )
        if self.float32_softmax:
            softmax = torch.softmax(scores, -1, dtype=wide_type(scores))
            return softmax.to(scores.dtype)
        return torch.softmax(scores, -1)

    @staticmethod
    def aligned(attn_bias: Tensor) -> Tensor:
        """The bias [B, H, T, T] as fused kernels read it in every layer without a copy: in
        the type of autocast, with rows that begin a multiple of 8 numbers apart."""
        kind = attn_bias.device.type
        if torch.is_autocast_enabled(kind):
            attn_bias = attn_bias.to(torch.get_autocast_dtype(kind))
        columns = attn_bias.shape[-1]
        return F.pad(attn_bias, (0, -columns % 8))[..., :columns]

    @staticmethod
    def pair_messages(attention: Tensor, pair_type: Tensor, value: Tensor) -> Tensor:
        """attention [B, H, T, T], pair_type [B, T, T], value [R, D] -> [B, H, T, d].

        Summing the attention per type first avoids a [B, T, T, D] tensor.
        """
        B, H, T, _ = attention.shape
        index = pair_type.unsqueeze(1).expand(B, H, T, T)
        per_type = add_by_index(attention, index, 3, (B, H, T, value.shape[0]))
        heads = value.to(attention.dtype).view(value.shape[0], H, -1).transpose(0, 1)
        return per_type @ heads
