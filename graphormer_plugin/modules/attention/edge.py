"""Attention over the edges of a graph, Eq. 4-5 and 9-12 of Dwivedi & Bresson 2021
(arXiv:2012.09699)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_heads
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.sparse import NodeLayout, scatter_sum

CLAMP = 5.0  # exponents are clamped to [-CLAMP, CLAMP]
# Added to the denominator if edges have features, as in the released code.
EDGE_EPSILON = 1e-6


class EdgeScores(nn.Module):
    """Scores of edges j -> i, (Q h_i . K h_j) / sqrt(D / H) per head, and the values V h_j. If
    edges have features, E e_ij multiplies the channels before their sum (Eq. 12)."""

    def __init__(self, embed_dim: int, num_heads: int, edge_features: bool) -> None:
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        self.scale = (embed_dim // num_heads) ** -0.5
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.edge = (
            nn.Linear(embed_dim, embed_dim, bias=False) if edge_features else None
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge: Tensor | None = None,
        kind: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Nodes x [S, D], edges [2, E] from source j to target i, and edge features [E, D], or
        with kinds [E] of edges those of kinds [R, D] -> scores [E, H] in float32 at least,
        values of the sources [E, D], and, with edge features, their terms per channel [E, D],
        the new edge features (Eq. 10)."""
        source, target = edge_index
        dim = x.shape[1]
        query, sent = self.qkv_proj(x).split([dim, 2 * dim], 1)
        key, value = sent.index_select(0, source).chunk(2, 1)
        channels = (query * self.scale).index_select(0, target) * key
        if self.edge is not None:
            factor = self.edge(edge)
            if kind is not None:
                factor = factor.index_select(0, kind)
            channels = channels * factor
        wide = torch.promote_types(channels.dtype, torch.float32)
        scores = channels.unflatten(1, (self.num_heads, -1)).sum(-1, dtype=wide)
        return scores, value, None if self.edge is None else channels

    def dense(self, x: Tensor, layout: NodeLayout) -> tuple[Tensor, Tensor]:
        """Scores of all pairs, without edge features: nodes [S, D] -> [B, H, N, N],
        [i, j] for node i attending to node j; and values [B, H, N, D / H]."""
        query, key, value = (
            part.transpose(1, 2)
            for part in layout.pad(self.qkv_proj(x))
            .unflatten(2, (3, self.num_heads, -1))
            .unbind(2)
        )
        return (query * self.scale) @ key.transpose(2, 3), value


class EdgeAttention(nn.Module):
    """O_h of the values of neighbours, weighted by the softmax of scores (Eq. 4, 9).

    A node without neighbours gets the bias of O_h.

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

    def forward(
        self,
        x: Tensor,
        scores: Tensor,
        value: Tensor,
        edge_index: Tensor | None = None,
        layout: NodeLayout | None = None,
        count: Tensor | None = None,
    ) -> Tensor:
        """
        Args:
            x: nodes [S, D], of which only the number is read.
            scores: scores of the edges [E, H], or of all pairs [B, H, N, N].
            value: values of the sources [E, D], or of all nodes [B, H, N, D / H].
            edge_index: [2, E], source and target, for scores of edges.
            layout: layout of the nodes, for scores of pairs.
            count: [B, N, N], number of edges from node j to node i, for scores of pairs.

        Returns:
            [S, D].
        """
        weight = self.dropout(self.weights(scores, edge_index, count, x.shape[0]))
        if count is not None:
            mixed = weight.to(value.dtype) @ value
            return self.output(layout.flatten(mixed.transpose(1, 2).flatten(2)))
        # The product is as wide as the weights, as the sum has to be.
        message = value.unflatten(1, (self.num_heads, -1)) * weight.unsqueeze(-1)
        mixed = scatter_sum(message.flatten(1), edge_index[1], x.shape[0])
        return self.output(mixed.to(value.dtype))

    def weights(
        self,
        scores: Tensor,
        edge_index: Tensor | None,
        count: Tensor | None,
        num_nodes: int,
    ) -> Tensor:
        """Normalised weights of the shape of the scores, in float32 at least."""
        # Backward in one operation, which `clamp` is not.
        weight = F.hardtanh(scores, -CLAMP, CLAMP)
        weight = weight.to(torch.promote_types(weight.dtype, torch.float32)).exp()
        if count is not None:
            weight = weight * count.unsqueeze(1)
            return weight / self._denominator(weight.sum(-1, True))
        target = edge_index[1]
        total = self._denominator(scatter_sum(weight, target, num_nodes))
        return weight / total.index_select(0, target)

    def attention_weights(
        self,
        x: Tensor,
        scores: Tensor,
        value: Tensor,
        edge_index: Tensor | None = None,
        layout: NodeLayout | None = None,
        count: Tensor | None = None,
    ) -> Tensor:
        """Weights [1, H, N, N] of `forward` with the same arguments for a single graph,
        without dropout; row i has the weights of the sum for node i."""
        weight = self.weights(scores, edge_index, count, x.shape[0])
        if count is not None:
            return weight
        source, target = edge_index
        maps = weight.new_zeros(len(x), len(x), self.num_heads)
        maps.index_put_((target, source), weight, accumulate=True)
        return maps.permute(2, 0, 1).unsqueeze(0)

    def _denominator(self, total: Tensor) -> Tensor:
        """The numerator is 0 without neighbours; the denominator must not be 0."""
        smallest = torch.finfo(total.dtype).tiny
        return total + self.epsilon if self.epsilon else total.clamp(min=smallest)


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
        return super().forward(x, *self._scored(x, given))

    def attention_weights(self, x: Tensor, given: GivenEdges) -> Tensor:
        """See `EdgeAttention`; those of virtual nodes are left out."""
        N = given.num_nodes
        maps = super().attention_weights(x, *self._scored(x, given))
        return maps[..., :N, :N]

    def _scored(self, x: Tensor, given: GivenEdges) -> tuple[Tensor, Tensor, Tensor]:
        scores, value, _ = self.scores(x, given.index, given.vectors, given.kind)
        return scores, value, given.index


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


def count_all_pairs(node_mask: Tensor) -> Tensor:
    """The full graph, [B, N, N] bool: an edge between any two different nodes."""
    columns = node_mask.shape[1]
    is_other = ~torch.eye(columns, dtype=torch.bool, device=node_mask.device)
    return node_mask.unsqueeze(1) & node_mask.unsqueeze(2) & is_other
