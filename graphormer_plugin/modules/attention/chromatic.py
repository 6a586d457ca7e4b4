"""Self-attention with one score per channel, filtered by features of node pairs.

`_filter` is the formula. Which code runs instead:

- on a CPU in float32: the compiled function;
- elsewhere, for large batches or with ``--attention-memory lean``: the formula in chunks,
  which the backward pass computes again.

`plain_attention` switches both off. Second derivatives and exported programs always use the
formula.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from graphormer_plugin.choices import check_choice, check_heads
from graphormer_plugin.modules.attention.compiled import (
    compiled_channels,
    compiled_fits,
    plain_only,
)
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.sparse import wide_type

KINDS = ("chromatic", "mono", "additive")
OUTPUT_PROJECTIONS = ("full", "low_rank", "none")

# Elements of the largest tensor of a chunk. On a CPU two or three such tensors should fit
# the cache; a GPU needs work for all its cores.
CHUNK = {"cpu": 1 << 18, "cuda": 1 << 25}


class PairVectors(NamedTuple):
    """Vectors of all pairs as products of known features and small learned matrices:
    E^att = features @ att and E^val = features @ val.

    Attributes:
        features: [B, N, N, F], row i the receiver, column j the sender.
        att: [F, D], or [F, H] for an attention with one score per head. A feature with
            -30000 in it forbids its pairs.
        val: [F, D]; None: nothing is added to the messages.
        lean: if the compiled function does not fit, compute the attention in chunks and
            recompute them in the backward pass, so that no [B, N, N, D] is in memory.
    """

    features: Tensor
    att: Tensor
    val: Tensor | None
    lean: bool = False


def filter_messages(
    base: Tensor, v: Tensor, keep: Tensor | None, pairs: PairVectors
) -> Tensor:
    """Sum over j of softmax_j(base + E^att) * keep * (v_j + E^val), channel by channel
    (Eq. 5-7 of Menegaux et al. 2023).

    Args:
        base: scores [B, N, N, H] (or [B, 1, N, H], the same for every receiver), each
            for D / H neighbouring channels.
        v: [B, N, D].
        keep: [B, N, N], a factor on the filters after their softmax; None: 1.
        pairs: E^att and E^val, both D wide.

    Returns:
        [B, N, D].
    """
    tensors = (base.permute(0, 3, 1, 2), v, pairs.features.permute(0, 3, 1, 2))
    tensors += pairs.att, pairs.val, keep
    learned = pairs.features.requires_grad  # a pair encoding has weights
    if not learned and all(
        tensor is None or compiled_fits(tensor) for tensor in tensors
    ):
        return compiled_channels(_filter_tensors, *tensors)
    with torch.autocast(v.device.type, enabled=False):
        if pairs.lean and not plain_only():
            return _filter_in_chunks(base, v, keep, pairs)
        return _filter(base, v, keep, pairs)


def _filter(base: Tensor, v: Tensor, keep: Tensor | None, pairs: PairVectors) -> Tensor:
    """`filter_messages` in plain operations, all at once."""
    work = _work_type(v)
    features = pairs.features.to(work)
    messages = v.to(work).unsqueeze(1)
    filters = _filters(base.to(work), features @ pairs.att.to(work))
    if keep is not None:
        filters = filters * keep.unsqueeze(-1).to(work)
    if pairs.val is not None:
        messages = messages + features @ pairs.val.to(work)
    return (filters * messages).sum(2).to(v.dtype)


def _filter_tensors(
    base: Tensor,
    v: Tensor,
    features: Tensor,
    att: Tensor,
    val: Tensor | None,
    keep: Tensor | None,
) -> Tensor:
    """`_filter` of tensors alone, with base [B, H, N or 1, N] and features [B, F, N, N]."""
    pairs = PairVectors(features.permute(0, 2, 3, 1), att, val)
    return _filter(base.permute(0, 2, 3, 1), v, keep, pairs)


def _work_type(v: Tensor) -> torch.dtype:
    """The type of v on a GPU (half under autocast); float32 at least on a CPU, where it is
    faster."""
    on_cpu = v.device.type == "cpu"
    return wide_type(v) if on_cpu else v.dtype


def _filter_in_chunks(
    base: Tensor, v: Tensor, keep: Tensor | None, pairs: PairVectors
) -> Tensor:
    """`_filter` of some graphs at a time, or of some queries of a single graph."""
    B, N, D = v.shape
    limit = CHUNK.get(v.device.type, CHUNK["cuda"])
    graphs = max(1, limit // (N * N * D))
    queries = min(N, max(1, limit // (N * D)))
    # Their gradients are sums over the chunks: float32 at least.
    wide = wide_type(v)
    val = None if pairs.val is None else pairs.val.to(wide)
    pairs = pairs._replace(att=pairs.att.to(wide), val=val)

    out = []
    for features, base_part, v_part, keep_part in _split(
        graphs, 0, pairs.features, base, v, keep
    ):
        rows = [
            checkpoint(
                _filter,
                base_rows,
                v_part,
                keep_rows,
                pairs._replace(features=some),
                use_reentrant=False,
                preserve_rng_state=False,  # the dropout is in `keep`
            )
            for some, base_rows, keep_rows in _split(
                queries, 1, features, base_part, keep_part
            )
        ]
        out.append(torch.cat(rows, 1))
    return torch.cat(out)


def _split(
    size: int, dim: int, features: Tensor, *others: Tensor | None
) -> Iterator[tuple]:
    """Parts of the features along a dimension, each with the parts of the others. None, and
    what is the same for all, come with every part."""
    parts = (
        repeat(x) if x is None or x.shape[dim] == 1 else x.split(size, dim)
        for x in others
    )
    return zip(features.split(size, dim), *parts)


def _filters(base: Tensor, att: Tensor) -> Tensor:
    """base [B, N or 1, N, H], att [B, N, N, D] -> softmax over j, [B, N, N, D]."""
    logits = att.unflatten(3, (base.shape[3], -1)) + base.unsqueeze(-1)
    return torch.softmax(logits.flatten(3), 2)


class ChromaticAttention(nn.Module):
    """Chromatic self-attention, Eq. 5-7 and Appendix B of Menegaux et al. 2023
    (hal-04105101): for channel c of head h, with d = D / H,

        a_c(i, j) = softmax_j(q_i^h . k_j^h / sqrt(d) + E^att_ij,c)
        z_i = sum_j a(i, j) * (v_j + E^val_ij)

    The maps to q, k and v have no bias, as in the released code.

    Args:
        kind: "chromatic": as above, a score per channel; "mono": E^att [B, N, N, H], a
            score per head as in standard multi-head attention (Eq. 4);
            "additive": q_i + k_j + E^att_ij per channel (section 3.2). There q_i cancels
            in the softmax over j, so queries are not computed, and the number of heads
            does not matter.
        output_projection: map after the attention: "full", D x D; "low_rank", two maps
            with D / 4 between them; "none", as in the formula.
        dropout: rate of pairs whose filter becomes zero in all channels.
        node_dropout: rate of nodes that send nothing.
        channel_dropout: rate of channels that are zero in the whole graph.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kind: str = "chromatic",
        output_projection: str = "full",
        dropout: float = 0.0,
        node_dropout: float = 0.0,
        channel_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("attention", kind, KINDS)
        check_choice("output projection", output_projection, OUTPUT_PROJECTIONS)
        check_heads(embed_dim, num_heads)
        self.kind = kind
        self.num_heads = embed_dim if kind == "additive" else num_heads
        maps = 2 if kind == "additive" else 3
        self.qkv_proj = nn.Linear(embed_dim, maps * embed_dim, bias=False)
        if output_projection == "full":
            self.out_proj = nn.Linear(embed_dim, embed_dim)
        elif output_projection == "low_rank":
            rank = max(embed_dim // 4, 1)
            self.out_proj = nn.Sequential(
                nn.Linear(embed_dim, rank, bias=False), nn.Linear(rank, embed_dim)
            )
        else:
            self.out_proj = nn.Identity()
        self.dropout = Dropout(dropout)
        self.node_dropout = Dropout(node_dropout)
        self.channel_dropout = Dropout(channel_dropout)

    def forward(self, x: Tensor, pairs: PairVectors) -> Tensor:
        """x [B, N, D] -> [B, N, D]. A row in which everything is forbidden is finite and
        meaningless."""
        B, N, _ = x.shape
        base, v = self.scores(x)
        keep = self.kept(x.new_ones(B, N, N))
        if self.kind == "mono":
            out = self.multi_head(base.permute(0, 3, 1, 2), v, keep, pairs)
        else:
            out = filter_messages(base, v, keep, pairs)
        channels = self.channel_dropout(out.new_ones(B, 1, out.shape[2]))
        return self.out_proj(out * channels)

    def scores(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of nodes alone, [B, N, N, H] ([B, 1, N, D] for "additive"), and values
        [B, N, D]."""
        *parts, v = self.qkv_proj(x).split(x.shape[2], -1)
        if self.kind == "additive":
            return parts[0].unsqueeze(1), v
        q, k = (part.unflatten(2, (self.num_heads, -1)) for part in parts)
        scores = torch.einsum("bihd,bjhd->bhij", q * q.shape[3] ** -0.5, k)
        return scores.permute(0, 2, 3, 1), v

    def attention_weights(self, x: Tensor, pairs: PairVectors) -> Tensor:
        """Attention weights of `forward` with the same arguments, without dropout:
        [B, D, N, N], a map per channel; [B, H, N, N] for "mono"."""
        base, _ = self.scores(x)
        return _filters(base, pairs.features @ pairs.att).permute(0, 3, 1, 2)

    def kept(self, ones: Tensor) -> Tensor | None:
        """Factors [B, N, N] of connections and senders; None where nothing drops."""
        if not self.training or not (self.dropout.p or self.node_dropout.p):
            return None
        return self.dropout(ones) * self.node_dropout(ones[:, :1])

    @staticmethod
    def multi_head(
        scores: Tensor, v: Tensor, keep: Tensor | None, pairs: PairVectors
    ) -> Tensor:
        """scores [B, H, N, N] -> [B, N, D]. Each head sums the features with its weights
        before it maps them to values, which avoids a [B, N, N, D] tensor."""
        bias = pairs.features @ pairs.att  # [B, N, N, H]
        weights = torch.softmax(scores + bias.permute(0, 3, 1, 2), -1)
        if keep is not None:
            weights = weights * keep.unsqueeze(1)
        B, H, N, _ = weights.shape
        heads = v.unflatten(2, (H, -1)).transpose(1, 2)  # [B, H, N, d]
        out = weights @ heads
        if pairs.val is not None:
            summed = weights.transpose(1, 2) @ pairs.features  # [B, N, H, F]
            values = pairs.val.unflatten(1, (H, -1))  # [F, H, d]
            out = out + torch.einsum("bihf,fhd->bhid", summed, values)
        return out.transpose(1, 2).flatten(2)
