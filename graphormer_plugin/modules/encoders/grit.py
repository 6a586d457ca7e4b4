"""Encoder of GRIT (Ma et al. 2023, arXiv:2305.17589) as released (LiamMa/GRIT)."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext.pairs import LANES
from graphormer_plugin.choices import check_choice, check_heads, check_least
from graphormer_plugin.modules.attention.compiled import (
    compiled_fits,
    compiled_pairs,
)
from graphormer_plugin.modules.encoders.base import SparseEncoder, perturbed
from graphormer_plugin.modules.encodings.bond_encoder import edge_encoder
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder
from graphormer_plugin.modules.encodings.node_encodings import walk_powers
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import (
    TransformerEncoderConfig,
    check_layers,
    defaults,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import ACTIVATIONS
from graphormer_plugin.modules.layers.sparse import (
    Batch,
    NodeLayout,
    scatter_sum,
    wide_type,
)

CLAMP = 5.0  # of scores, as released


@dataclass
@defaults(
    encoder_layers=10,
    encoder_embed_dim=64,
    encoder_attention_heads=8,
    dropout=0.0,
    attention_dropout=0.2,
)
class GRITEncoderConfig(TransformerEncoderConfig):
    """Options of `GRITEncoder`. The defaults are those of `grit_zinc`."""

    encoder_ffn_embed_dim: int = option(
        0, "inner width of the feed-forward network; 0: twice the width"
    )
    act_dropout: Optional[float] = option(
        None, "dropout after the activation, 0 <= p < 1 (default: as --dropout)"
    )
    walk_steps: int = option(
        21, "powers of the random walk, with the identity, >= 1 (K)"
    )
    activation_fn: str = option(
        "relu", "activation of the feed-forward network and of the head: relu or gelu"
    )


def signed_root(x: Tensor) -> Tensor:
    """sign(x) sqrt(|x|), whose gradient at 0, infinite, is taken as 0."""
    zero = x == 0
    safe = x.masked_fill(zero, 1.0)
    return (safe.sign() * safe.abs().sqrt()).masked_fill(zero, 0.0)


def pair_weights(
    pairs: Tensor, q: Tensor, k: Tensor, maps: Tensor, score: Tensor
) -> tuple[Tensor, Tensor]:
    """t [P, H, d] and the weights [P, H] of the senders, whose sum is 1, from pairs [2, P]
    (sender, receiver), q and k [S, D], maps [P, 2 D] and score [H, d]; see
    `PairStateAttention`."""
    sender, receiver = pairs
    joint = q.index_select(0, receiver) + k.index_select(0, sender)
    factor, bias = maps.unflatten(-1, (len(score), -1)).chunk(2, -1)
    t = torch.relu(signed_root(joint.unflatten(-1, score.shape) * factor) + bias)
    weights = (t * score).sum(-1).clamp(-CLAMP, CLAMP).exp()
    total = scatter_sum(weights, receiver, len(q))
    return t, (weights / total.index_select(0, receiver)).to(t.dtype)


def pair_messages(
    pairs: Tensor,
    sizes: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    maps: Tensor,
    score: Tensor,
    keep: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """t [P, D] and the sums over the senders of v and of t, [S, D] each, with the weights of
    `pair_weights` times `keep` [P, H]; `sizes` [B] says the nodes of each graph."""
    sender, receiver = pairs
    t, weights = pair_weights(pairs, q, k, maps, score)
    weights = (weights * keep).unsqueeze(-1)
    value = v.unflatten(-1, score.shape).index_select(0, sender)
    sums = (scatter_sum(weights * part, receiver, len(q)) for part in (value, t))
    return t.flatten(1), *(part.flatten(1) for part in sums)


class PairStateAttention(nn.Module):
    """Attention whose pairs have states, and pass them on (Eq. 2 of Ma et al. 2023).

    With receiver i, sender j and pair state e_ij, in each head: t_ij = ReLU(root((q_i + k_j) *
    W_w e_ij) + W_b e_ij), a_ij = softmax_j(A t_ij), o_i = sum_j a_ij (v_j + W_E t_ij). Scores
    are clamped at +-5, as released.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        width = embed_dim // num_heads
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.pair = nn.Linear(embed_dim, 2 * embed_dim)
        self.score = nn.Parameter(torch.empty(num_heads, width))
        self.pair_value = nn.Parameter(torch.empty(num_heads, width, width))
        self.dropout = Dropout(dropout)
        maps = (self.query, self.key, self.value, self.pair)
        for weight in (*(one.weight for one in maps), self.score, self.pair_value):
            nn.init.xavier_normal_(weight)

    def forward(
        self, x: Tensor, e: Tensor, pairs: Tensor, layout: NodeLayout
    ) -> tuple[Tensor, Tensor]:
        """Nodes x [S, D] and pair states e [P, D] of the pairs [2, P] (sender, receiver) ->
        o [S, D] and t [P, D]."""
        inputs = (self.query(x), self.key(x), self.value(x), self.pair(e), self.score)
        keep = self.dropout(inputs[0].new_ones(len(e), self.num_heads))
        tensors = (pairs, layout.sizes, *inputs, keep)
        if self.score.shape[1] % LANES == 0 and all(map(compiled_fits, inputs)):
            t, out, states = compiled_pairs(pair_messages, *tensors)
        else:
            t, out, states = pair_messages(*tensors)
        states = states.to(t.dtype).unflatten(-1, self.score.shape)
        states = torch.einsum("shd,hdc->shc", states, self.pair_value)
        return out.to(t.dtype) + states.flatten(1), t

    def attention_weights(
        self, x: Tensor, e: Tensor, pairs: Tensor, layout: NodeLayout
    ) -> Tensor:
        """See `AttentionMaps`; [B, H, N, N]."""
        sender, receiver = pairs
        vectors = (self.query(x), self.key(x), self.pair(e))
        weights = pair_weights(pairs, *vectors, self.score)[1]
        B = layout.num_graphs
        N = layout.max_nodes
        row = layout.flat_index[receiver] * N + layout.local_index[sender]
        padded = weights.new_zeros(B * N * N, self.num_heads)
        padded = padded.index_copy(0, row, weights)
        return padded.view(B, N, N, -1).permute(0, 3, 1, 2)


class GRITLayer(nn.Module):
    """x <- BN(x + W_O s(o)), e <- BN(e + W_P t), x <- BN(x + FFN(x)), with the degree scaler
    s(o)_i = theta_1 o_i + log(1 + degree_i) theta_2 o_i. The last layer leaves e as it is,
    because nothing reads it."""

    def __init__(self, config: GRITEncoderConfig, last: bool) -> None:
        super().__init__()
        width = config.encoder_embed_dim
        dropout = config.dropout
        self.attention = PairStateAttention(
            width, config.encoder_attention_heads, config.attention_dropout
        )
        # Xavier-normal of the released shape [1, D, 2].
        self.degree_scale = nn.Parameter(torch.randn(2, width) * (width + 1) ** -0.5)
        self.out_proj = nn.Linear(width, width)
        self.attention_norm = MaskedBatchNorm(width)
        self.pair_proj = None if last else nn.Linear(width, width)
        self.pair_norm = None if last else MaskedBatchNorm(width)
        inner = config.encoder_ffn_embed_dim or 2 * width
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.ffn_norm = MaskedBatchNorm(width)
        rate = config.act_dropout
        self.dropout = Dropout(dropout)
        self.act_dropout = Dropout(dropout if rate is None else rate)
        self.activation = ACTIVATIONS[config.activation_fn]

    def forward(
        self,
        x: Tensor,
        e: Tensor,
        pairs: Tensor,
        layout: NodeLayout,
        log_degree: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """x [S, D], e [P, D], pairs [2, P], log(1 + degree) [S, 1] -> x and e."""
        out, t = self.attention(x, e, pairs, layout)
        out = self.dropout(out)
        plain, by_degree = self.degree_scale
        out = out * plain + log_degree * out * by_degree
        x = self.attention_norm(x + self.out_proj(out))
        if self.pair_norm is not None:
            e = self.pair_norm(e + self.pair_proj(self.dropout(t)))
        hidden = self.act_dropout(self.activation(self.fc1(x)))
        return self.ffn_norm(x + self.fc2(hidden)), e


class GRITEncoder(SparseEncoder):
    """Layers of attention over all pairs of nodes of a graph, each with a state that starts
    from random walks and goes through the layers (Ma et al. 2023).

    The state of receiver i and sender j starts from the walk of 0 to K - 1 steps from i to j
    and the bond j -> i, a node from its walks back and its features. A GPU is waited for once
    in a step, for the number of pairs.

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(2, node_dims=[119, 5], bond_dims=[4])
        >>> config = GRITEncoderConfig(
        ...     encoder_layers=2, encoder_embed_dim=16, encoder_attention_heads=4
        ... )
        >>> encoder = GRITEncoder(schema, config)
        >>> sorted(encoder.required_fields)
        ['bond', 'node_graph', 'node_mask', 'x']
        >>> batch = {
        ...     "x": torch.tensor([[[6, 0], [8, 1]]]),
        ...     "node_mask": torch.tensor([[True, True]]),
        ...     "node_graph": torch.tensor([0, 0]),
        ...     "bond": torch.tensor([[[0, 1], [1, 0]]]),
        ... }
        >>> encoder(batch).shape
        torch.Size([1, 2, 16])
    """

    def __init__(self, vocabularies: Vocabularies, config: GRITEncoderConfig) -> None:
        super().__init__()
        check_layers(config)
        check_least("walk_steps", config.walk_steps, 1)
        check_choice("activation_fn", config.activation_fn, ("relu", "gelu"))
        self.embed_dim = width = config.encoder_embed_dim
        self.walk_steps = config.walk_steps
        self.node_encoder = NodeEncoder(vocabularies, config)
        self.real = bool(vocabularies.num_edge_features)
        combine = {} if self.real else {"combine": "sum"}
        self.bonds = edge_encoder(vocabularies, width, **combine)
        self.node_walks = nn.Linear(config.walk_steps, width, bias=False)
        self.pair_walks = nn.Linear(config.walk_steps, width, bias=False)
        for walks in (self.node_walks, self.pair_walks):
            nn.init.xavier_uniform_(walks.weight)
        self.layers = nn.ModuleList(
            GRITLayer(config, number == config.encoder_layers)
            for number in range(1, config.encoder_layers + 1)
        )

    @property
    def fields(self) -> tuple[str, ...]:
        """See `Encoder`."""
        return "bond", "node_graph", *self.bonds.fields

    @property
    def options(self) -> dict[str, Any]:
        """See `Encoder`."""
        return {"number_edges": True, "distinct_edges": True} if self.real else {}

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, N, D]; padding is zero."""
        layout = NodeLayout.of(batch)
        x = self.node_encoder(batch)
        dtype = x.dtype
        bond = batch["bond"]
        walks = self.walks(bond)
        degree = (bond != 0).sum(-1, dtype=walks.dtype)
        walks = walks.to(dtype)
        x = x + self.node_walks(walks.diagonal(dim1=1, dim2=2).mT)
        x = layout.flatten(perturbed(x, perturb))
        pairs = layout.all_pairs(loops=True)
        sender, receiver = pairs
        N = layout.max_nodes
        row = layout.flat_index[receiver] * N + layout.local_index[sender]
        e = self.pair_walks(walks.flatten(0, 2).index_select(0, row))
        number = bond.mT.flatten().index_select(0, row).long()
        vectors = self.bonds(*(batch[name] for name in self.bonds.fields))
        e = e + F.embedding(number, vectors.to(dtype))
        log_degree = layout.flatten(degree.log1p().to(dtype)).unsqueeze(-1)
        for layer in self.layers:
            x, e = self.run_layer(layer, x, e, pairs, layout, log_degree)
        return layout.pad(x)

    def walks(self, bond: Tensor) -> Tensor:
        """Probabilities [B, N, N, K] of walks of 0 to K - 1 steps from the first node to the
        second, in float32 at least."""
        dtype = wide_type(self.pair_walks.weight)
        identity = torch.eye(bond.shape[1], dtype=dtype, device=bond.device)
        powers = identity.expand(bond.shape), *walk_powers(
            bond, self.walk_steps - 1, dtype
        )
        return torch.stack(powers[: self.walk_steps], -1)
