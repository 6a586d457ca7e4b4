"""Random numbers of a graph that do not depend on the batch or process it is in."""

import torch
from torch import Tensor

from cython_ext.codes import GOLDEN, MIXING

# One stream of numbers for each purpose.
FLAG = 1
SIGNS = 2
NOISE = 3
IDENTIFIERS = 4

_GOLDEN = GOLDEN - 2**64


def _mixed(bits: Tensor) -> Tensor:
    """The output function of SplitMix64, int64 -> int64."""
    for shift, factor in MIXING:
        # torch shifts in the sign
        bits = bits ^ ((bits >> shift) & ((1 << (64 - shift)) - 1))
        bits = bits * (factor - 2**64 if factor >> 63 else factor)
    return bits


def kept_pairs(seed: int, shape: tuple[int, ...], dropout: float) -> Tensor:
    """The mask of the dropout in `cython_ext.relative_attention`: False where it drops the
    weight of a pair, bool of the shape [B, H, T, T]."""
    word = 2**32 - 1
    B, H, T, _ = shape
    keys = _mixed(seed + torch.arange(1, B * H + 1) * _GOLDEN).view(B, H, 1, 1)
    pairs = torch.arange(T * T).view(T, T)
    bits = (keys + pairs * (keys >> 32 | 1)) & word
    bits = (bits ^ bits >> 16) * 0x7FEB352D & word
    bits = (bits ^ bits >> 15) * 0x846CA68B & word
    return (bits ^ bits >> 16) >= int(dropout * 2**32)


def graph_seeds(seed: int, update: int, graph_ids: Tensor) -> Tensor:
    """A seed for each graph in an update of a training, int64 [B], from the numbers of the
    graphs in their dataset, int64 [B]."""
    number = seed % 2**31 * 2**32 + update % 2**32
    run = torch.full((1,), number, device=graph_ids.device)  # without a blocking copy
    return _mixed(_mixed(run * _GOLDEN) + graph_ids * _GOLDEN)


def uniform(
    seed: Tensor | None, shape: torch.Size, stream: int, like: Tensor
) -> Tensor:
    """Numbers uniform in [-1, 1), which follow from the seed of each graph.

    Args:
        seed: [B] int64; None: drawn from torch's generator.
        shape: B first. If it is [B, N, D], the numbers of a node do not depend on N.
        stream: FLAG, SIGNS, NOISE or IDENTIFIERS.
    """
    if seed is None:
        seed = torch.randint(2**62, shape[:1], device=like.device)
    numbers = torch.arange(1, shape[1:].numel() + 1, device=like.device)
    start = _mixed(seed ^ stream)
    bits = _mixed(start.unsqueeze(1) + numbers * _GOLDEN)
    return (bits >> 40).to(torch.float32).mul_(2.0**-23).to(like.dtype).view(shape)


def random_signs(vectors: Tensor, seed: Tensor | None) -> Tensor:
    """Vectors [B, N, k] of nodes, each of the k of each graph with a sign of its own; for the seed
    see `uniform`."""
    shape = torch.Size([len(vectors), 1, vectors.shape[2]])
    draws = uniform(seed, shape, SIGNS, vectors)
    return torch.where(draws < 0, -vectors, vectors)
