"""Numbers and distances in a basis of Gaussians whose centres and widths are learned."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_least


class GaussianKernels(nn.Module):
    """exp(-((x - c_k) / s_k)^2 / 2) for K centres c_k and widths s_k.

    Centres start evenly on 0..`cutoff`, widths at their spacing; both are learned.

    Args:
        num_kernels: K, at least 2.
        cutoff: largest centre at the start, in the unit of the numbers.
    """

    def __init__(self, num_kernels: int, cutoff: float) -> None:
        super().__init__()
        check_least("num_kernels", num_kernels, 2)
        self.centre = nn.Parameter(torch.linspace(0, cutoff, num_kernels))
        spacing = cutoff / (num_kernels - 1)
        self.log_width = nn.Parameter(torch.full((num_kernels,), math.log(spacing)))

    def forward(self, numbers: Tensor) -> Tensor:
        """[...] -> [..., K]."""
        scaled = (numbers.unsqueeze(-1) - self.centre) / self.log_width.exp()
        return torch.exp(-0.5 * scaled.square())


class PairTypeKernels(nn.Module):
    """exp(-((a d + b - c_k) / s_k)^2 / 2) / (sqrt(2 pi) s_k) of distances d, with a factor a
    and a shift b for each ordered pair of node types: the kernels of Graphormer-3D.

    As in its released code, s_k = |w_k| + 1e-5, pi is 3.14159, and centres c and widths w
    start from U(0, 3), in the unit of the distances.

    Args:
        num_kernels: K.
        num_types: types of a node.
    """

    def __init__(self, num_kernels: int, num_types: int) -> None:
        super().__init__()
        check_least("num_kernels", num_kernels, 1)
        self.num_types = num_types
        self.centre = nn.Parameter(torch.empty(num_kernels).uniform_(0, 3))
        self.width = nn.Parameter(torch.empty(num_kernels).uniform_(0, 3))
        self.factor = nn.Parameter(torch.ones(num_types**2, 1))
        self.shift = nn.Parameter(torch.zeros(num_types**2, 1))

    def forward(self, distances: Tensor, types: Tensor) -> Tensor:
        """Distances [B, N, N] in float32 at least, types int64 [B, N] -> [B, N, N, K]."""
        pairs = types.unsqueeze(2) * self.num_types + types.unsqueeze(1)
        factor = F.embedding(pairs, self.factor)
        numbers = factor * distances.unsqueeze(-1) + F.embedding(pairs, self.shift)
        width = self.width.to(distances.dtype).abs() + 1e-5
        scaled = (numbers - self.centre) / width
        values = torch.exp(-0.5 * scaled.square()) / ((2 * 3.14159) ** 0.5 * width)
        return values.to(self.centre.dtype)


def pair_distances(pos: Tensor) -> Tensor:
    """L2 distances of positions, [B, N, 3] in float32 or float64 -> [B, N, N].

    Derivatives of any order exist; between equal positions, such as those of padding, they
    are 0.
    """
    if not pos.requires_grad:  # several times as fast, but without a second derivative
        return torch.cdist(pos, pos, compute_mode="donot_use_mm_for_euclid_dist")
    squares = (pos.unsqueeze(2) - pos.unsqueeze(1)).square().sum(-1)
    equal = squares == 0
    return squares.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)
