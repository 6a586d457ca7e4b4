"""The formula of attention with a vector per relation, in operations of torch.

It is the definition of the compiled function and of the operations with a backward pass of
their own, and gives their second derivatives.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from graphormer_plugin.modules.layers.sparse import add_by_index


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


def heads_first(qkv: Tensor, num_heads: int) -> Tensor:
    """Queries, keys and values [B, T, 3 D] -> [3, H, B, T, D / H], contiguous: heads first,
    so that products with the relation tables are a large matrix product per head."""
    heads = qkv.unflatten(2, (3, num_heads, -1))
    return heads.permute(2, 3, 0, 1, 4).contiguous()


def relation_weights(
    q: Tensor,
    k: Tensor,
    tables: RelationTables | None,
    relation_index: Tensor | None,
    attn_bias: Tensor | None = None,
    edges: EdgeTerms | None = None,
    key_from_row: bool = False,
) -> Tensor:
    """Attention weights [B, H, T, T], row i for query i.

    Args:
        q, k: [H, B, T, d].
        tables: vectors of the relations; None: all pairs are allowed.
        relation_index: [B, T, T] int64 in 0..R, with `tables`.
        attn_bias: [B, H, T, T].
        edges: real features of pairs.
        key_from_row: k_i . Rk[r] in place of k_j . Rk[r].
    """
    scores = q @ k.mT
    if tables is not None:
        query, key, _ = (table.to(q.dtype).unsqueeze(1) for table in tables)
        index = relation_index.expand(scores.shape)
        scores = scores + (q @ query.mT).gather(3, index)
        if key_from_row:
            scores = scores + (k @ key.mT).gather(3, index)
        else:
            scores = scores + (key @ k.mT).gather(2, index)
    if edges is not None and edges.query is not None:
        features = edges.features.to(q.dtype)
        by_query = torch.einsum("hbid,chd->hbic", q, edges.query.to(q.dtype))
        scores = scores + torch.einsum("hbic,bijc->hbij", by_query, features)
        by_key = torch.einsum("hbid,chd->hbic", k, edges.key.to(q.dtype))
        term = "hbic,bijc->hbij" if key_from_row else "hbjc,bijc->hbij"
        scores = scores + torch.einsum(term, by_key, features)
    scores = scores * q.shape[3] ** -0.5
    if attn_bias is not None:
        scores = scores + attn_bias.to(scores.dtype).transpose(0, 1)
    if tables is not None:
        forbidden = index == tables.query.shape[1] - 1
        scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, -1).transpose(0, 1)


def relation_messages(
    weights: Tensor,
    v: Tensor,
    table: Tensor | None,
    relation_index: Tensor | None,
    edges: EdgeTerms | None = None,
) -> Tensor:
    """Weights [B, H, T, T], values [H, B, T, d] and the table of the values [H, R + 1, d]
    -> sums over j of w_ij (v_j + Rv[r]), [B, T, D]."""
    out = torch.einsum("bhij,hbjd->bihd", weights, v)
    if table is not None:
        index = relation_index.unsqueeze(1).expand_as(weights)
        shape = (*weights.shape[:3], table.shape[1])
        per_relation = add_by_index(weights, index, 3, shape)
        value = table.to(weights.dtype)
        out = out + torch.einsum("bhir,hrd->bihd", per_relation, value)
    if edges is not None and edges.value is not None:
        features = edges.features.to(weights.dtype)
        per_feature = torch.einsum("bhij,bijc->bhic", weights, features)
        value = edges.value.to(weights.dtype)
        out = out + torch.einsum("bhic,chd->bihd", per_feature, value)
    return out.flatten(2)


def relation_attention(
    heads: Tensor,
    query_table: Tensor | None,
    key_table: Tensor | None,
    value_table: Tensor | None,
    relation_index: Tensor | None,
    attn_bias: Tensor | None,
    *,
    keep: Tensor | None,
    key_from_row: bool,
) -> Tensor:
    """`relation_messages` [B, T, D] with the `relation_weights` of `heads_first`, which the
    factors ``keep`` [B, H, T, T] multiply."""
    tables = None
    if query_table is not None:
        tables = RelationTables(query_table, key_table, value_table)
    q, k, v = heads
    weights = relation_weights(
        q, k, tables, relation_index, attn_bias, key_from_row=key_from_row
    )
    if keep is not None:
        weights = weights * keep
    return relation_messages(weights, v, value_table, relation_index)
