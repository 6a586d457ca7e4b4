"""Distances of atoms in a basis of Gaussians: Graphormer-3D and Transformer-M.

Sources: the released code of both, microsoft/Graphormer and lsj2408/Transformer-M; and
schnetpack, whose kernels start evenly.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice, check_least

PAIR_TYPES = ("none", "ordered", "sum")
STARTS = ("uniform", "normal", "even")
PI = 3.14159  # in the released code
FLOORS = {"uniform": 1e-5, "normal": 1e-2, "even": 1e-2}  # of widths
EVEN_END = 6.0  # angstrom, the last centre (our choice)


class GaussianKernels(nn.Module):
    """exp(-((x - c_k) / s_k)^2 / 2) / (sqrt(2 pi) s_k) for K centres c_k and widths s_k, both
    learned, with s_k = abs(w_k) + floor.

    Args:
        num_kernels: K, at least 1.
        start: "uniform", c_k and w_k start from U(0, 3) and the floor is 1e-5
            (Graphormer-3D); "normal", from N(0, 0.02) and 0.01 (Transformer-M); or "even",
            c_k from 0 to 6 angstrom in equal steps, w_k = such a step, as SchNet's, and 0.01.
    """

    def __init__(self, num_kernels: int, start: str = "uniform") -> None:
        super().__init__()
        check_least("gaussian_kernels", num_kernels, 1)
        check_choice("gaussian_start", start, STARTS)
        self.floor = FLOORS[start]
        self.centre = nn.Parameter(torch.empty(num_kernels))
        self.width = nn.Parameter(torch.empty(num_kernels))
        if start == "even":
            self.centre.data = torch.linspace(0, EVEN_END, num_kernels)
            self.width.data.fill_(EVEN_END / max(num_kernels - 1, 1))
            return
        for weight in (self.centre, self.width):
            if start == "uniform":
                nn.init.uniform_(weight, 0, 3)
            else:
                nn.init.normal_(weight, std=0.02)

    def forward(self, numbers: Tensor) -> Tensor:
        """Numbers [...] in float32 at least -> [..., K] in the type of the weights."""
        width = self.width.to(numbers.dtype).abs() + self.floor
        scaled = (numbers.unsqueeze(-1) - self.centre) / width
        values = torch.exp(-0.5 * scaled.square()) / ((2 * PI) ** 0.5 * width)
        return values.to(self.centre.dtype)


class DistanceKernels(nn.Module):
    """`GaussianKernels` of a_t d + b_t for distances d of pairs of type t, whose factor a_t and
    shift b_t are learned.

    Args:
        num_kernels: K.
        types: type of a pair: "none", all pairs have one, and no factor and shift; "ordered",
            one for each two atoms in their order (Graphormer-3D); "sum", factor and shift
            are sums of a number of either atom (Transformer-M).
        num_atoms: atoms are 0..num_atoms - 1.
        start: see `GaussianKernels`. Factors are 1 and shifts 0, but for "normal".
    """

    def __init__(
        self,
        num_kernels: int,
        types: str = "none",
        num_atoms: int = 0,
        start: str = "uniform",
    ) -> None:
        super().__init__()
        check_choice("gaussian_types", types, PAIR_TYPES)
        self.types = types
        self.num_atoms = num_atoms
        self.kernels = GaussianKernels(num_kernels, start)
        # Parameters, because an architecture starts its own Embeddings anew.
        self.factor = self.shift = None
        if types != "none":
            rows = num_atoms**2 if types == "ordered" else 2 * num_atoms
            terms = 1 if types == "ordered" else 2
            self.factor = nn.Parameter(torch.full((rows, 1), 1 / terms))
            self.shift = nn.Parameter(torch.zeros(rows, 1))
            if start == "normal":
                nn.init.normal_(self.factor, std=0.02)
                nn.init.normal_(self.shift, std=0.02)

    def forward(self, distances: Tensor, *atoms: Tensor) -> Tensor:
        """Distances [...] in float32 or float64, and the atoms [...] of the first and the second
        node of each pair, which types need -> [..., K]."""
        if self.types != "none":
            first, second = atoms
            rows = [first, self.num_atoms + second]
            if self.types == "ordered":
                rows = [self.num_atoms * first + second]
            factor = sum(F.embedding(row, self.factor).squeeze(-1) for row in rows)
            shift = sum(F.embedding(row, self.shift).squeeze(-1) for row in rows)
            distances = factor * distances + shift
        return self.kernels(distances)


def pair_distances(pos: Tensor) -> Tensor:
    """L2 distances of positions, [B, N, 3] in float32 or float64 -> [B, N, N].

    Derivatives of any order exist; between equal positions, such as those of padding, they
    are 0.
    """
    # Several times as fast, but without a second derivative, and unknown to ONNX.
    if not (pos.requires_grad or torch.compiler.is_compiling()):
        return torch.cdist(pos, pos, compute_mode="donot_use_mm_for_euclid_dist")
    return lengths(pos.unsqueeze(2) - pos.unsqueeze(1))


def cosine_cutoff(distances: Tensor, end: float) -> Tensor:
    """(cos(pi d / end) + 1) / 2, and 0 from the end on: SchNet's and PaiNN's cutoff in
    schnetpack."""
    return (torch.cos(torch.pi * (distances / end).clamp(max=1)) + 1) / 2


def lengths(vectors: Tensor) -> Tensor:
    """L2 norm of [..., 3] with derivatives of any order, which are 0 at 0."""
    squares = vectors.square().sum(-1)
    equal = squares == 0
    return squares.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)
