"""Read-outs of graphs from their nodes, and heads that predict."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice
from graphormer_plugin.modules.layers.encoder_layer import ACTIVATIONS
from graphormer_plugin.modules.layers.sparse import wide_type

READOUTS = ("mean", "sum", "max")
HEAD_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


def read_out(x: Tensor, node_mask: Tensor, kind: str = "mean") -> Tensor:
    """A vector per graph [B, D] from the vectors of its nodes x [B, N, D], by a kind in
    `READOUTS`; zero for a graph without nodes.

    The mask [B, N] is True for real nodes; padding may hold anything. Sums are float32 at
    least.
    """
    check_choice("readout", kind, READOUTS)
    mask = node_mask.unsqueeze(-1)
    if kind == "max":
        lowest = torch.finfo(x.dtype).min
        out = x.masked_fill(~mask, lowest).amax(1)
        return out.where(mask.any(1), 0)
    out = x.masked_fill(~mask, 0).sum(1, dtype=wide_type(x))
    if kind == "mean":
        out = out / mask.sum(1).clamp(min=1)
    return out.to(x.dtype)


class LinearHead(nn.Linear):
    """A linear map, [..., D] -> [..., C]."""

    output_names = ("weight", "bias")  # the weights of single outputs


class TransformHead(nn.Module):
    """Linear, activation, LayerNorm, projection without bias, plus one learned scalar
    for all outputs: the head of Graphormer's released second version."""

    output_names = ("projection.weight", "bias")

    def __init__(
        self, embed_dim: int, num_outputs: int, activation: str = "gelu"
    ) -> None:
        super().__init__()
        self.transform = nn.Linear(embed_dim, embed_dim)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(embed_dim)
        self.projection = nn.Linear(embed_dim, num_outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., C]."""
        x = self.norm(self.activation(self.transform(x)))
        out = self.projection(x)
        return out + self.bias.to(out.dtype)  # under autocast the bias is wider


class UnitNorm(nn.Module):
    """Divides each vector by its L2 norm, or by 1e-12 if that is larger; in float32 at
    least, as 1e-12 is 0 in half precision."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return F.normalize(x.to(wide_type(x)), dim=-1).to(x.dtype)


class MLPHead(nn.Module):
    """Linear maps with an activation between them.

    Args:
        widths: widths of the input, of each hidden layer, and the number of outputs C.
        activation: a key of `HEAD_ACTIVATIONS`.
        unit_norm: divide the output of each hidden layer by its L2 norm.
    """

    output_names = ("projection.weight", "projection.bias")

    def __init__(
        self, widths: Sequence[int], activation: str = "relu", unit_norm: bool = False
    ) -> None:
        super().__init__()
        if len(widths) < 2 or min(widths) < 1:
            raise ValueError(f"widths {list(widths)}, expected two or more, each >= 1")
        check_choice("activation of the head", activation, tuple(HEAD_ACTIVATIONS))
        hidden: list[nn.Module] = []
        for before, after in zip(widths[:-2], widths[1:-1]):
            hidden += [nn.Linear(before, after), HEAD_ACTIVATIONS[activation]()]
            hidden += [UnitNorm()] if unit_norm else []
        self.hidden = nn.Sequential(*hidden)
        self.projection = nn.Linear(*widths[-2:])

    @staticmethod
    def halving(
        embed_dim: int, times: int, num_outputs: int, activation: str = "relu"
    ) -> "MLPHead":
        """A head of widths D, D/2, ..., D/2^times, C, rounded down. Hidden layers have at
        least 8 channels, because all of two or three ReLUs may be inactive at the start.
        """
        hidden = [max(embed_dim >> i, 8) for i in range(1, times + 1)]
        return MLPHead([embed_dim, *hidden, num_outputs], activation)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., C]."""
        return self.projection(self.hidden(x))
