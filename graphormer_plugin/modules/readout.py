"""From the encoded virtual node to the outputs."""

import torch
from torch import Tensor, nn

from .encoder_layer import ACTIVATIONS


class TransformHead(nn.Module):
    """Linear, activation, LayerNorm, projection without bias, plus one learned scalar
    for all outputs: the head of Graphormer's released second version.

    Args:
        embed_dim: width D.
        num_outputs: C.
        activation: a key of `ACTIVATIONS`.
    """

    output_names = ("projection.weight", "bias")  # of the weights behind the outputs

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
        return self.projection(x) + self.bias
