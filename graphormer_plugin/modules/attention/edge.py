"""Attention over the edges of a graph, Eq. 4-5 and 9-12 of Dwivedi & Bresson 2021
(arXiv:2012.09699)."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext.attention import PARTS
from graphormer_plugin.choices import check_heads
from graphormer_plugin.modules.attention.compiled import compiled_edges, compiled_fits
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.sparse import NodeLayout, scatter_sum, wide_type

CLAMP = 5.0  # exponents are clamped to [-CLAMP, CLAMP]
# Added to the denominator if edges have features, as in the released code.
EDGE_EPSILON = 1e-6


class EdgeScores(nn.Module):
    """Maps for `EdgeAttention`: queries Q h, keys K h and values V h of nodes, and, if edges
    have features, the factors E e of the channels of their scores (Eq. 12)."""

    def __init__(self, embed_dim: int, num_heads: int, edge_features: bool) -> None:
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.edge = (
            nn.Linear(embed_dim, embed_dim, bias=False) if edge_features else None
        )

    def forward(
        self, x: Tensor, edge: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Nodes x [S, D], and features of edges [E, D] or of their kinds [R, D] -> queries,
        keys and values [S, 3 D], and factors of the shape of the features."""
        return self.qkv_proj(x), None if self.edge is None else self.edge(edge)


class EdgeAttention(nn.Module):
    """O_h of the values of neighbours, weighted by the softmax of scores (Eq. 4, 9).

    A node without neighbours gets the bias of O_h. `edge_messages` is the formula; a compiled
    function computes it in float32 on a CPU.

    Args:
        epsilon: added to the denominator of the softmax.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, epsilon: float = 0.0
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.epsilon = epsilon
        self.output = nn.Linear(embed_dim, embed_dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mixed: Tensor, *_: Tensor | None) -> Tensor:
        """Nodes x [S, D], which are not read, their weighted sums mixed [S, D], and what these
        are made of -> [S, D]."""
        return self.output(mixed)

    def messages(
        self,
        qkv: Tensor,
        factor: Tensor | None,
        edge_index: Tensor,
        kind: Tensor | None = None,
        channels: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Weighted sums of values.

        Args:
            qkv: queries, keys and values [S, 3 D].
            factor: factors of edges [E, D], or with kinds [E] those of kinds [R, D].
            edge_index: [2, E], source and target.

        Returns:
            [S, D], and with ``channels`` the terms of the scores [E, D], the new features of
            edges (Eq. 10).
        """
        run = edge_messages
        keep = self.dropout
        if all(one is None or compiled_fits(one) for one in (qkv, factor)):
            run = partial(compiled_edges, edge_messages)
            keep = None
            if self.training and self.dropout.p:
                ones = qkv.new_ones(edge_index.shape[1], self.num_heads)
                keep = self.dropout(ones)
            if kind is not None and len(factor) * PARTS > len(kind):
                factor = factor.index_select(0, kind)
                kind = None  # sums of parts: many
        options = {"heads": self.num_heads, "epsilon": self.epsilon}
        tensors = (qkv, factor, edge_index, kind, keep)
        return run(*tensors, **options, channels=channels)

    def dense_messages(self, qkv: Tensor, layout: NodeLayout, count: Tensor) -> Tensor:
        """`messages` [S, D] along edges that are counted, [B, N, N] from node j to node i."""
        query, key, value = (
            part.transpose(1, 2)
            for part in layout.pad(qkv).unflatten(2, (3, self.num_heads, -1)).unbind(2)
        )
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(2, 3)
        weight = _exponentials(scores) * count.unsqueeze(1)
        weight = weight / _denominator(weight.sum(-1, True), self.epsilon)
        mixed = self.dropout(weight).to(value.dtype) @ value
        return layout.flatten(mixed.transpose(1, 2).flatten(2))

    def attention_weights(
        self,
        x: Tensor,
        mixed: Tensor,
        qkv: Tensor,
        factor: Tensor | None,
        edge_index: Tensor,
        kind: Tensor | None = None,
    ) -> Tensor:
        """Weights [1, H, N, N] of `messages` with the same arguments for a single graph,
        without dropout; row i has the weights of the sum for node i."""
        N = len(qkv)
        source, target = edge_index
        scores, _, _ = edge_scores(qkv, factor, edge_index, kind, self.num_heads)
        weight = edge_weights(scores, target, N, self.epsilon)
        maps = weight.new_zeros(N, N, self.num_heads)
        maps.index_put_((target, source), weight, accumulate=True)
        return maps.permute(2, 0, 1).unsqueeze(0)


def edge_scores(
    qkv: Tensor,
    factor: Tensor | None,
    edge_index: Tensor,
    kind: Tensor | None,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of edges j -> i, (Q h_i . K h_j) / sqrt(D / H) per head, with factors of the
    channels before their sum.

    Returns:
        scores [E, H] in float32 at least, values of the sources [E, D], and terms of the
        scores [E, D].
    """
    source, target = edge_index
    dim = qkv.shape[1] // 3
    query, sent = qkv.split([dim, 2 * dim], 1)
    key, value = sent.index_select(0, source).chunk(2, 1)
    scale = (dim // num_heads) ** -0.5
    channels = (query * scale).index_select(0, target) * key
    if factor is not None:
        factor = factor if kind is None else factor.index_select(0, kind)
        channels = channels * factor
    scores = channels.unflatten(1, (num_heads, -1)).sum(-1, dtype=wide_type(channels))
    return scores, value, channels


def edge_weights(
    scores: Tensor, target: Tensor, num_nodes: int, epsilon: float
) -> Tensor:
    """Weights of edges from their scores [E, H], in float32 at least."""
    weight = _exponentials(scores)
    total = _denominator(scatter_sum(weight, target, num_nodes), epsilon)
    return weight / total.index_select(0, target)


def _exponentials(scores: Tensor) -> Tensor:
    # Backward in one operation, which `clamp` is not.
    return F.hardtanh(scores, -CLAMP, CLAMP).to(wide_type(scores)).exp()


def _denominator(total: Tensor, epsilon: float) -> Tensor:
    """The numerator is 0 without neighbours; the denominator must not be 0."""
    smallest = torch.finfo(total.dtype).tiny
    return total + epsilon if epsilon else total.clamp(min=smallest)


def edge_messages(
    qkv: Tensor,
    factor: Tensor | None,
    edge_index: Tensor,
    kind: Tensor | None,
    keep: Tensor | Dropout | None,
    *,
    heads: int,
    epsilon: float,
    channels: bool,
) -> tuple[Tensor, Tensor | None]:
    """`EdgeAttention.messages` in plain operations; keep, also [E, H], multiplies the weights."""
    target = edge_index[1]
    scores, value, terms = edge_scores(qkv, factor, edge_index, kind, heads)
    weight = edge_weights(scores, target, qkv.shape[0], epsilon)
    if isinstance(keep, Dropout):
        weight = keep(weight)
    elif keep is not None:
        weight = weight * keep
    # The product is as wide as the weights, as the sum has to be.
    message = value.unflatten(1, (heads, -1)) * weight.unsqueeze(-1)
    mixed = scatter_sum(message.flatten(1), target, qkv.shape[0]).to(value.dtype)
    return mixed, terms if channels else None


class GivenEdges(NamedTuple):
    """Edges that attention runs over.

    Attributes:
        index: [2, M], source and target, of which the first are nodes.
        kind: [M] rows of `vectors`.
        vectors: features of the kinds [R, D].
        num_nodes: nodes without virtual ones.
    """

    index: Tensor
    kind: Tensor
    vectors: Tensor
    num_nodes: int


class GivenEdgeAttention(EdgeAttention):
    """`EdgeAttention` without output map, along edges of kinds that all layers share: that of
    Exphormer (Shirzad et al. 2023, arXiv:2303.06147)."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(embed_dim, num_heads, dropout, EDGE_EPSILON)
        self.output = nn.Identity()
        self.scores = EdgeScores(embed_dim, num_heads, edge_features=True)

    def forward(self, x: Tensor, given: GivenEdges) -> Tensor:
        """Nodes and virtual nodes [S, D] -> [S, D]."""
        return self.messages(*self._inputs(x, given))[0]

    def attention_weights(self, x: Tensor, given: GivenEdges) -> Tensor:
        """See `EdgeAttention`; those of virtual nodes are left out."""
        N = given.num_nodes
        maps = super().attention_weights(x, x, *self._inputs(x, given))
        return maps[..., :N, :N]

    def _inputs(self, x: Tensor, given: GivenEdges) -> tuple[Tensor | None, ...]:
        return *self.scores(x, given.vectors), given.index, given.kind


class ScoreOutput(nn.Module):
    """O_e of the scores per channel (Eq. 10), in the place of a node layer's attention."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.output = nn.Linear(embed_dim, embed_dim)

    def forward(self, edge: Tensor, channels: Tensor) -> Tensor:
        """edge [E, D], which is not read, and channels [E, D] -> [E, D]."""
        return self.output(channels)


def count_edges(edge_index: Tensor, layout: NodeLayout) -> Tensor:
    """Number of edges between all pairs, [B, N, N] float32: [b, i, j] counts the edges
    from node j to node i of graph b."""
    source, target = edge_index
    N = layout.max_nodes
    pair = layout.flat_index[target] * N + layout.local_index[source]
    ones = torch.ones_like(pair, dtype=torch.float32)
    count = scatter_sum(ones, pair, layout.num_graphs * N * N)
    return count.view(layout.num_graphs, N, N)
