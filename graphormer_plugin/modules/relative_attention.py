"""Self-attention in which queries, keys and values meet a vector per relation.

`RelativeAttention._plain` is the formula. Which code runs instead:

- on a CPU in float32 and bfloat16, with heads of at most 32 channels: the compiled function;
- elsewhere: `_RelativeAttention`, the same operations with a backward pass of its own. On an
  H100 a training step of `grpe_standard` takes 0.7 times as long with it, and 0.9 times the
  memory.

``GRAPHORMER_COMPILED=0`` switches both off. Real features of edges and exported programs
always use the formula.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from graphormer_plugin.modules.choices import check_heads
from graphormer_plugin.modules.compiled_attention import (
    compiled_attention,
    compiled_attention_fits,
    plain_only,
)
from graphormer_plugin.modules.dropout import Dropout, keep_mask
from graphormer_plugin.modules.sparse import add_by_index

# The widest heads of the compiled function. Heads of 24 take 0.8 times as long as the
# operations of torch, heads of 64 2.3 times (18 nodes, training).
COMPILED_WIDTH = 32


class RelationTables(NamedTuple):
    """Vectors [H, R + 1, D / H] of R relations; the last row (zero) forbids a pair."""

    query: Tensor
    key: Tensor
    value: Tensor


class EdgeTerms(NamedTuple):
    """Real features of pairs, and linear maps of them.

    Attributes:
        features: [B, T, T, C].
        query, key, value: linear maps [C, H, D / H]; None: the features do not enter.
    """

    features: Tensor
    query: Tensor | None
    key: Tensor | None
    value: Tensor | None


def heads_first(x: Tensor, num_heads: int) -> Tensor:
    """[B, T, D] -> [H, B * T, D / H], contiguous: heads first, so that products with the
    relation tables are a large matrix product per head."""
    return (
        x.reshape(-1, num_heads, x.shape[-1] // num_heads).transpose(0, 1).contiguous()
    )


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
        qkv,
        query_table,
        key_table,
        value_table,
        relation_index,
        p,
        key_from_row,
        attn_bias=None,
    ):
        """qkv [B, T, 3 D] -> [B, T, D]; see `RelativeAttention.forward`."""
        B, T, _ = qkv.shape
        H, R, d = query_table.shape  # R counts the forbidden relation, the last
        scale, rescale = d**-0.5, 1 / (1 - p)
        q, k, v = (heads_first(part, H) for part in qkv.chunk(3, dim=-1))
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
        mask = keep_mask(attention.shape, p, attention) if p else None
        dropped = attention * mask if p else attention

        per_relation = add_by_index(dropped.view(H, B, T, T), index, 3, (H, B, T, R))
        out = torch.bmm(per_relation.view(H, B * T, R), value_table)
        out = out.view(H * B, T, d)
        torch.baddbmm(out, dropped, v, alpha=rescale, beta=rescale, out=out)
        ctx.save_for_backward(
            q, k, v, query_table, key_table, value_table,
            attention, mask, dropped, per_relation, relation_index,
        )  # fmt: skip
        ctx.rescale, ctx.key_from_row = rescale, key_from_row
        ctx.has_bias = attn_bias is not None
        return out.view(H, B, T, d).permute(1, 2, 0, 3).reshape(B, T, H * d)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """Gradients of qkv, the tables and the bias."""
        (
            q, k, v, query_table, key_table, value_table,
            attention, mask, dropped, per_relation, relation_index,
        ) = ctx.saved_tensors  # fmt: skip
        H, R, d = query_table.shape
        B, T, _ = relation_index.shape
        scale = d**-0.5
        index = relation_index.expand(H, B, T, T)
        grad = heads_first(grad, H)
        if mask is not None:
            grad *= ctx.rescale

        grad_value_table = torch.bmm(
            per_relation.view(H, B * T, R).transpose(1, 2), grad
        )
        grad_scores = torch.gather(
            torch.bmm(grad, value_table.transpose(1, 2)).view(H, B, T, R), 3, index
        ).view(H * B, T, T)
        grad = grad.view(H * B, T, d)
        grad_v = torch.bmm(dropped.transpose(1, 2), grad)
        torch.baddbmm(grad_scores, grad, v.transpose(1, 2), out=grad_scores)
        if mask is not None:
            grad_scores *= mask
        grad_scores = torch._softmax_backward_data(
            grad_scores, attention, -1, attention.dtype
        )

        by_pair = grad_scores.view(H, B, T, T)
        grad_qr = add_by_index(by_pair, index, 3, (H, B, T, R)).view(H, B * T, R)
        if ctx.key_from_row:
            grad_kr = grad_qr.transpose(1, 2)
        else:
            grad_kr = add_by_index(by_pair, index, 2, (H, B, R, T))
            grad_kr = grad_kr.transpose(1, 2).reshape(H, R, B * T)
        grad_q = torch.bmm(grad_qr, query_table).view(H * B, T, d)
        torch.baddbmm(grad_q, grad_scores, k, alpha=scale, beta=scale, out=grad_q)
        grad_k = torch.bmm(grad_kr.transpose(1, 2), key_table).view(H * B, T, d)
        grad_scores = grad_scores.transpose(1, 2)
        torch.baddbmm(grad_k, grad_scores, q, alpha=scale, beta=scale, out=grad_k)
        grad_query_table = torch.bmm(grad_qr.transpose(1, 2), q.view(H, B * T, d))
        grad_key_table = torch.bmm(grad_kr, k.view(H, B * T, d))
        grad_qkv = grad.new_empty(B, T, 3, H, d)
        for i, part in enumerate((grad_q, grad_k, grad_v)):
            grad_qkv[:, :, i] = part.view(H, B, T, d).permute(1, 2, 0, 3)
        return (
            grad_qkv.view(B, T, 3 * H * d),
            grad_query_table.mul_(scale),
            grad_key_table.mul_(scale),
            grad_value_table,
            None,
            None,
            None,
            by_pair.transpose(0, 1) if ctx.has_bias else None,
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
            attn_bias: [B, H, T, T], added to the scores after their division by sqrt(d).
            edges: real features e_ij; linear maps of them join Rq[r], Rk[r] and Rv[r].

        Returns:
            [B, T, D]. A row in which everything is forbidden is finite and meaningless.
        """
        if edges is not None or plain_only():
            return self._plain(x, tables, relation_index, attn_bias, edges)
        qkv = self.qkv_proj(x)
        tables = [table.to(qkv.dtype) for table in tables]
        p = self.dropout if self.training else 0.0
        if attn_bias is not None:
            attn_bias = attn_bias.to(qkv.dtype)
        if compiled_attention_fits(qkv, self.num_heads, COMPILED_WIDTH):
            out = compiled_attention(
                qkv,
                tables,
                relation_index,
                attn_bias,
                dropout=p,
                key_from_row=self.key_from_row,
            )
            return self.out_proj(out)
        with torch.autocast(x.device.type, enabled=False):  # out= does not autocast
            out = _RelativeAttention.apply(
                qkv, *tables, relation_index, p, self.key_from_row, attn_bias
            )
        return self.out_proj(out)

    def attention_weights(self, x: Tensor, *arguments: Any) -> Tensor:
        """Attention weights of `forward` with the same arguments, without dropout:
        [B, H, T, T], row i for query i."""
        q, k, _ = self._heads(x)
        return self._weights(q, k, *arguments)

    def _heads(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values [H, B, T, D / H]."""
        B, T, _ = x.shape
        parts = self.qkv_proj(x).chunk(3, dim=-1)
        H = self.num_heads
        return [heads_first(part, H).view(H, B, T, -1) for part in parts]

    def _weights(
        self,
        q: Tensor,
        k: Tensor,
        tables: RelationTables,
        relation_index: Tensor,
        attn_bias: Tensor | None = None,
        edges: EdgeTerms | None = None,
    ) -> Tensor:
        H, B, T, _ = q.shape
        query, key, _ = (table.to(q.dtype).unsqueeze(1) for table in tables)
        R = query.shape[2]  # counts the forbidden relation, the last
        index = relation_index.expand(H, B, T, T)
        scores = q @ k.mT + (q @ query.mT).gather(3, index)
        if self.key_from_row:
            scores = scores + (k @ key.mT).gather(3, index)
        else:
            scores = scores + (key @ k.mT).gather(2, index)
        if edges is not None and edges.query is not None:
            features = edges.features.to(q.dtype)
            by_query = torch.einsum("hbid,chd->hbic", q, edges.query.to(q.dtype))
            scores = scores + torch.einsum("hbic,bijc->hbij", by_query, features)
            by_key = torch.einsum("hbid,chd->hbic", k, edges.key.to(q.dtype))
            term = "hbic,bijc->hbij" if self.key_from_row else "hbjc,bijc->hbij"
            scores = scores + torch.einsum(term, by_key, features)
        scores = scores * q.shape[3] ** -0.5
        if attn_bias is not None:
            scores = scores + attn_bias.to(scores.dtype).transpose(0, 1)
        scores = scores.masked_fill(index == R - 1, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, -1).transpose(0, 1)

    def _plain(
        self,
        x: Tensor,
        tables: RelationTables,
        relation_index: Tensor,
        attn_bias: Tensor | None,
        edges: EdgeTerms | None,
    ) -> Tensor:
        """`forward` in plain operations, also with real features of edges."""
        q, k, v = self._heads(x)
        weights = self._weights(q, k, tables, relation_index, attn_bias, edges)
        weights = F.dropout(weights, self.dropout, self.training)  # [B, H, T, T]
        R = tables.value.shape[1]
        index = relation_index.unsqueeze(1).expand_as(weights)
        per_relation = add_by_index(weights, index, 3, (*weights.shape[:3], R))
        out = torch.einsum("bhij,hbjd->bihd", weights, v)
        value = tables.value.to(x.dtype)
        out = out + torch.einsum("bhir,hrd->bihd", per_relation, value)
        if edges is not None and edges.value is not None:
            features = edges.features.to(weights.dtype)
            per_feature = torch.einsum("bhij,bijc->bhic", weights, features)
            value = edges.value.to(x.dtype)
            out = out + torch.einsum("bhic,chd->bihd", per_feature, value)
        return self.out_proj(out.flatten(2))
