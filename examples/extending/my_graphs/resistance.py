"""A batch field of pairs, and a pair encoding with weights that reads it."""

from types import SimpleNamespace

import numpy as np
from torch import Tensor

from graphormer_plugin.data.batches.fields.registered import register_field
from graphormer_plugin.modules import (
    GaussianKernels,
    PairEncoding,
    Vocabularies,
    register_pair_encoding,
)


@register_field("resistance", per="pair")
def resistance(graph: SimpleNamespace) -> np.ndarray:
    """Effective resistances, each edge a resistor of 1 ohm; -1 between components.

    A bond of a tree has 1, a bond of a benzene ring 5/6.
    """
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    adjacency = np.maximum(adjacency, adjacency.T)
    np.fill_diagonal(adjacency, 0)
    values, vectors = np.linalg.eigh(np.diag(adjacency.sum(0)) - adjacency)
    zero = values < 1e-9  # a vector for each component, constant on it
    inverse = vectors @ np.diag(np.where(zero, 0, 1 / np.where(zero, 1, values)))
    inverse = inverse @ vectors.T
    ohm = np.diag(inverse)[:, None] + np.diag(inverse) - 2 * inverse
    together = np.abs(vectors[:, zero] @ vectors[:, zero].T) > 1e-9
    return np.where(together, ohm, -1.0)


@register_pair_encoding("resistance")
class ResistanceKernels(PairEncoding):
    """Effective resistances in Gaussian kernels whose centres and widths are learned."""

    fields = ("resistance",)
    num_features = 8

    def __init__(self, vocabularies: Vocabularies) -> None:
        super().__init__(vocabularies)
        self.kernels = GaussianKernels(self.num_features)

    def forward(self, resistance: Tensor) -> Tensor:
        """resistance [B, N, N], 0 at padding -> [B, N, N, 8]."""
        return self.kernels(resistance.to(self.dtype))
