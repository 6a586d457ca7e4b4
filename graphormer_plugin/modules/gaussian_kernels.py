"""Numbers and distances in a basis of Gaussians whose centres and widths are learned."""

import math

import torch
from torch import Tensor, nn

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
