"""Self-attention in which queries, keys and values meet a vector per relation.

`modules.attention.formula` has the formula. Which code runs instead:

- on a CPU in float32 and bfloat16: the compiled function;
- elsewhere: `_RelativeAttention`, the same operations with a backward pass of its own. On an
  H100 a training step of `grpe_standard` takes 0.7 times as long with it, and 0.9 times the
  memory.

`plain_attention` switches both off. Second derivatives, real features of edges and exported
programs always use the formula.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_heads
from graphormer_plugin.modules.attention.compiled import (
    compiled_attention,
    compiled_attention_fits,
    plain_only,
)
from graphormer_plugin.modules.attention.formula import (
    EdgeTerms,
    RelationTables,
    heads_first,
    relation_attention,
    relation_messages,
    relation_weights,
)
from graphormer_plugin.modules.layers.derivatives import differentiable_by
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.sparse import add_by_index


def _formula(
    options: tuple[float, bool], heads: Tensor, *others: Tensor | None
) -> Tensor:
    """`_RelativeAttention` in plain operations."""
    p, key_from_row = options
    *others, keep = others
    if keep is not None:
        keep = (keep / (1 - p)).transpose(0, 1)
    return relation_attention(heads, *others, keep=keep, key_from_row=key_from_row)


class _RelativeAttention(torch.autograd.Function):
    """The attention of `RelativeAttention` with its own backward pass.

    Heads come first: `s[h, b, i, j] = q_i.k_j + qr[i, rel_ij] + kr[j, rel_ij]`, where `qr`
    and `kr` are the products of every node with every relation. Autograd would keep each
    summand and both gathered copies; this keeps the softmax, the dropout mask and the
    attention summed per relation.
    """

    @staticmethod
    def forward(
        ctx,
        options,
        heads,
        query_table,
        key_table,
        value_table,
        relation_index,
        attn_bias,
        keep,
    ):
        """Queries, keys and values [3, H, B, T, d] and the dropout's mask [H, B, T, T] or
        None -> [B, T, D]; see `RelativeAttention.forward`."""
        p, key_from_row = options
        H, R, d = query_table.shape  # R counts the forbidden relation, the last
        B, T, _ = relation_index.shape
        scale = d**-0.5
        rescale = 1 / (1 - p)
        q, k, v = heads.view(3, H, B * T, d)
        index = relation_index.expand(H, B, T, T)

        qr = torch.bmm(q, query_table.transpose(1, 2))  # [H, B*T, R]
        if key_from_row:
            torch.baddbmm(qr, k, key_table.transpose(1, 2), out=qr)
        # Finite, so that a row in which all is forbidden has a softmax (and no NaN),
        # and half the smallest, so that adding q.k does not overflow to -inf.
        qr[..., R - 1] = torch.finfo(qr.dtype).min / 2
        scores = torch.gather(qr.view(H, B, T, R), 3, index)
        if not key_from_row:
            kr = torch.bmm(key_table, k.transpose(1, 2))  # [H, R, B*T]
            scores += torch.gather(kr.view(H, R, B, T).transpose(1, 2), 2, index)
        scores = scores.view(H * B, T, T)
        q, k, v = (part.view(H * B, T, d) for part in (q, k, v))
        torch.baddbmm(scores, q, k.transpose(1, 2), alpha=scale, beta=scale, out=scores)
        if attn_bias is not None:
            scores += attn_bias.transpose(0, 1).reshape(scores.shape)
        attention = torch.softmax(scores, -1)
        dropped = attention
        if keep is not None:
            dropped = attention * keep.view_as(attention)

        per_relation = add_by_index(dropped.view(H, B, T, T), index, 3, (H, B, T, R))
        out = torch.bmm(per_relation.view(H, B * T, R), value_table)
        out = out.view(H * B, T, d)
        torch.baddbmm(out, dropped, v, alpha=rescale, beta=rescale, out=out)
        ctx.options = options
        ctx.save_for_backward(
            heads, query_table, key_table, value_table, relation_index, attn_bias, keep,
            attention, dropped, per_relation,
        )  # fmt: skip
        return out.view(H, B, T, d).permute(1, 2, 0, 3).reshape(B, T, H * d)

    @staticmethod
    @differentiable_by(_formula)
    def backward(ctx, grad):
        """Gradients of the heads, the tables and the bias."""
        (
            heads, query_table, key_table, value_table, relation_index, attn_bias, keep,
            attention, dropped, per_relation,
        ) = ctx.saved_tensors  # fmt: skip
        p, key_from_row = ctx.options
        H, R, d = query_table.shape
        B, T, _ = relation_index.shape
        scale = d**-0.5
        index = relation_index.expand(H, B, T, T)
        q, k, v = heads.view(3, H * B, T, d)
        grad = grad.reshape(-1, H, d).transpose(0, 1).contiguous()
        if keep is not None:
            grad = grad * (1 / (1 - p))

        grad_value_table = torch.bmm(
            per_relation.view(H, B * T, R).transpose(1, 2), grad
        )
        grad_scores = torch.gather(
            torch.bmm(grad, value_table.transpose(1, 2)).view(H, B, T, R), 3, index
        ).view(H * B, T, T)
        grad = grad.view(H * B, T, d)
        torch.baddbmm(grad_scores, grad, v.transpose(1, 2), out=grad_scores)
        if keep is not None:
            grad_scores *= keep.view_as(grad_scores)
        grad_scores = torch._softmax_backward_data(
            grad_scores, attention, -1, attention.dtype
        )

        by_pair = grad_scores.view(H, B, T, T)
        grad_qr = add_by_index(by_pair, index, 3, (H, B, T, R)).view(H, B * T, R)
        if key_from_row:
            grad_kr = grad_qr.transpose(1, 2)
        else:
            grad_kr = add_by_index(by_pair, index, 2, (H, B, R, T))
            grad_kr = grad_kr.transpose(1, 2).reshape(H, R, B * T)
        grad_heads = torch.empty_like(heads)
        grad_q, grad_k, grad_v = grad_heads.view(3, H * B, T, d)
        by_query = torch.bmm(grad_qr, query_table).view(H * B, T, d)
        torch.baddbmm(by_query, grad_scores, k, alpha=scale, beta=scale, out=grad_q)
        by_key = torch.bmm(grad_kr.transpose(1, 2), key_table).view(H * B, T, d)
        grad_scores = grad_scores.transpose(1, 2)
        torch.baddbmm(by_key, grad_scores, q, alpha=scale, beta=scale, out=grad_k)
        torch.bmm(dropped.transpose(1, 2), grad, out=grad_v)
        grad_query_table = torch.bmm(grad_qr.transpose(1, 2), q.view(H, B * T, d))
        grad_key_table = torch.bmm(grad_kr, k.view(H, B * T, d))
        return (
            None,
            grad_heads,
            grad_query_table.mul_(scale),
            grad_key_table.mul_(scale),
            grad_value_table,
            None,
            None if attn_bias is None else by_pair.transpose(0, 1),
            None,
        )


class RelativeAttention(nn.Module):
    """Node-aware attention with graph-encoded values, Eq. 6-9 of Park et al. 2022.

    For the relation r of query node i and key node j, d = D / H, each head computes

        a_ij = (q_i.k_j + q_i.Rq[r] + k_j.Rk[r]) / sqrt(d)
        z_i  = sum_j softmax_j(a_ij) (v_j + Rv[r])

    A row of Rq, Rk, Rv is the sum of the paper's topology and edge vectors of that
    relation. This equals the paper's two look-ups, because both enter linearly. The
    products of nodes and relations are computed once per node, O(T R D), and looked up
    per pair.

    Args:
        dropout: rate on the attention weights, before they are split into values and
            relations; 0 <= p < 1.
        key_from_row: k_i . Rk[r] in place of k_j . Rk[r], as in GRPE's released code.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        key_from_row: bool = False,
    ) -> None:
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        self.dropout = Dropout(dropout).p  # refuses a number outside of [0, 1)
        self.key_from_row = key_from_row
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self,
        x: Tensor,
        tables: RelationTables,
        relation_index: Tensor,
        attn_bias: Tensor | None = None,
        edges: EdgeTerms | None = None,
    ) -> Tensor:
        """
        Args:
            x: [B, T, D].
            tables: three tensors [H, R + 1, D / H] for R relations, the last row zero.
            relation_index: [B, T, T] int64 in 0..R; R forbids attention of row i to column j.
            attn_bias: [B, H, T, T], added to the scores after their division by sqrt(d); or
                [B, H, 1, T] for all rows.
            edges: real features e_ij; linear maps of them join Rq[r], Rk[r] and Rv[r].

        Returns:
            [B, T, D]. A row in which everything is forbidden is finite and meaningless.
        """
        qkv = self.qkv_proj(x)
        if edges is not None or plain_only():
            q, k, v = heads_first(qkv, self.num_heads)
            weights = self._weights(q, k, tables, relation_index, attn_bias, edges)
            weights = F.dropout(weights, self.dropout, self.training)
            return self.out_proj(
                relation_messages(weights, v, tables.value, relation_index, edges)
            )
        tables = [table.to(qkv.dtype) for table in tables]
        p = self.dropout if self.training else 0.0
        if attn_bias is not None:
            attn_bias = attn_bias.to(qkv.dtype)
        if compiled_attention_fits(qkv):
            out = compiled_attention(
                qkv,
                tables,
                relation_index,
                attn_bias,
                dropout=p,
                key_from_row=self.key_from_row,
            )
            return self.out_proj(out)
        heads = heads_first(qkv, self.num_heads)
        if attn_bias is not None:
            attn_bias = attn_bias.expand(-1, -1, x.shape[1], -1)
        keep = None
        if p:
            keep = heads.new_empty(heads.shape[1:4] + heads.shape[3:4]).bernoulli_(
                1 - p
            )
        with torch.autocast(x.device.type, enabled=False):  # out= does not autocast
            out = _RelativeAttention.apply(
                (p, self.key_from_row), heads, *tables, relation_index, attn_bias, keep
            )
        return self.out_proj(out)

    def attention_weights(self, x: Tensor, *arguments: Any) -> Tensor:
        """Attention weights of `forward` with the same arguments, without dropout:
        [B, H, T, T], row i for query i."""
        q, k, _ = heads_first(self.qkv_proj(x), self.num_heads)
        return self._weights(q, k, *arguments)

    def _weights(self, q: Tensor, k: Tensor, *arguments: Any) -> Tensor:
        """`relation_weights` with the key of this attention."""
        return relation_weights(q, k, *arguments, key_from_row=self.key_from_row)
