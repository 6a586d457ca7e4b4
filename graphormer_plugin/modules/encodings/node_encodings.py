"""Encodings of the nodes by their place in the graph, in the node input of every model.

An encoding computes numbers for each node. A map of its own, which starts as other maps of
the architecture do, makes vectors of them; `NodeEncoder` adds these to the embedded
features, or puts them beside them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.modules.encodings.registry import Encoding, EncodingRegistry
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.layers.graph_random import random_signs
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout

SPARSE = 16  # pairs for each edge from which on `walk_powers` needs no products


def walk_powers(
    bond: Tensor, num_steps: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """(D^-1 A)^k for k = 1..num_steps (Eq. 10 of Menegaux et al. 2023), by products of matrices
    or, of large sparse graphs on a CPU, by means over neighbours.

    Args:
        bond: [B, N, N], [i, j] not 0 where an edge goes from i to j. The walk follows
            edges and ends at a node that no edge leaves (probabilities 0). Self-loops do
            not count, and parallel edges count once; PyG's `AddRandomWalkPE` has both.
        num_steps: K, at least 1.
        dtype: number format of the computation, float32 or wider.

    Returns:
        K matrices [B, N, N].
    """
    made = [walk_matrix(bond, dtype)]
    if bond.device.type == "cpu" and not torch.compiler.is_compiling():
        graph, node, neighbour = bond.nonzero(as_tuple=True)
        if SPARSE * len(node) < bond.numel():
            first = graph * bond.shape[1]
            rows = made[0].flatten(0, 1)
            starts = torch.searchsorted(first + node, torch.arange(len(rows)))
            while len(made) < num_steps:
                rows = F.embedding_bag(first + neighbour, rows, starts, mode="mean")
                made.append(rows.view_as(bond))
    return powers(made, num_steps)


def walk_matrix(bond: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """D^-1 A, [B, N, N]; see `walk_powers`."""
    step = (bond != 0).to(dtype)
    return step / step.sum(-1, keepdim=True).clamp_(min=1)


def heat(bond: Tensor, count: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Powers 1..count of exp(-L), [B, N, N], with the Laplacian L of
    `graphormer_plugin.data.batches.fields.laplacian`. L of a node without edges is 0.
    """
    edge = bond != 0
    edge = (edge | edge.transpose(1, 2)).to(dtype)
    degree = edge.sum(-1)
    scale = degree.clamp(min=1).rsqrt()
    adjacency = scale.unsqueeze(-1) * edge * scale.unsqueeze(-2)
    exponent = adjacency - torch.diag_embed((degree > 0).to(dtype))
    return powers([torch.linalg.matrix_exp(exponent)], count)


def powers(made: list[Tensor], count: int) -> list[Tensor]:
    """Continue powers 1, 2, .. of matrices [B, N, N] up to ``count``, in their own number
    format."""
    with torch.autocast(made[0].device.type, enabled=False):
        while len(made) < count:
            made.append(made[-1] @ made[0])
    return made


class NodeEncoding(Encoding):
    """Numbers for each node, [B, N, F]; see `Encoding`."""

    def projection(self, width: int) -> nn.Module:
        """The map of the numbers to vectors, [B, N, F] -> [B, N, width]: linear."""
        return Projection(self.num_features, width)


class Projection(nn.Linear):
    """A linear map of numbers in any format."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., F] -> [..., width] in the type of the weights."""
        return super().forward(x.to(self.weight.dtype))


class NodeTerm(nn.Module):
    """An encoding and its map to vectors of a width."""

    def __init__(self, encoding: NodeEncoding, width: int) -> None:
        super().__init__()
        self.encoding = encoding
        self.projection = encoding.projection(width)

    def forward(self, batch: Batch) -> Tensor:
        """A batch -> [B, N, width]."""
        return self.projection(self.encoding(*self.encoding.arguments(batch)))


NODE_ENCODINGS: EncodingRegistry[NodeEncoding] = EncodingRegistry("node encoding")
"""Values of ``--node-encodings``."""

register_node_encoding = NODE_ENCODINGS.register
list_node_encodings = NODE_ENCODINGS.list_names


class MatrixDiagonals(NodeEncoding):
    """Diagonals of the powers 1..K of a matrix, and BatchNorm over the nodes, as in GraphGPS.

    Attributes:
        powers: bonds [B, N, N], K and number format -> K of [B, N, N].
    """

    fields = ("bond", "node_mask", "node_graph")
    powers: Callable[[Tensor, int, torch.dtype], list[Tensor]]

    def __init__(self, vocabularies: Vocabularies, num_powers: int = 20) -> None:
        super().__init__(vocabularies)
        self.num_features = num_powers
        self.norm = MaskedBatchNorm(num_powers)

    def forward(self, bond: Tensor, node_mask: Tensor, node_graph: Tensor) -> Tensor:
        """bond [B, N, N], 0 = none, and the mask and graphs of the nodes -> [B, N, K]."""
        count = self.num_features
        half = self.powers(bond, (count + 1) // 2, self.dtype)
        diagonals = [power.diagonal(dim1=1, dim2=2) for power in half]
        # The diagonal of a product needs no product.
        diagonals += [(half[-1] * power.mT).sum(-1) for power in half]
        rows = NodeLayout(node_mask, node_graph).flat_index
        return self.norm(torch.stack(diagonals[:count], -1), rows)


@register_node_encoding("random_walks")
class ReturnProbabilities(MatrixDiagonals):
    """Probabilities that a random walk is back after 1..K steps (RWSE)."""

    powers = staticmethod(walk_powers)
    constant = [0]  # a walk leaves its node in the first step


@register_node_encoding("heat_kernel")
class HeatKernel(MatrixDiagonals):
    """Heat that is left at a node after the times 1..K, the diagonal of exp(-t L). The
    Laplacian and the times are our choice."""

    powers = staticmethod(heat)


@register_node_encoding("laplacian")
class LaplacianEncoding(NodeEncoding):
    """k Laplacian eigenvectors, zeros where a graph has fewer. Their signs are arbitrary, so
    that each eigenvector of each graph has a random sign in training (Dwivedi & Bresson
    2021, arXiv:2012.09699). The signs follow from the seeds of the graphs, if there are
    any."""

    fields = ("lap_pe",)
    random = True

    def __init__(self, vocabularies: Vocabularies, num_vectors: int = 8) -> None:
        super().__init__(vocabularies)
        self.num_vectors = num_vectors
        self.num_features = num_vectors

    @property
    def field_options(self) -> dict[str, Any]:
        """See `Encoding`."""
        return {"lap_pe_dim": self.num_vectors}

    def forward(self, lap_pe: Tensor, seed: Tensor | None = None) -> Tensor:
        """lap_pe [B, N, >= k], seed of each graph's signs [B] -> [B, N, k]."""
        lap_pe = lap_pe[..., : self.num_vectors]
        return random_signs(lap_pe, seed) if self.training else lap_pe


@register_node_encoding("signnet")
class SignNet(LaplacianEncoding):
    """phi(v) + phi(-v) of each of k Laplacian eigenvectors v, and an MLP of all of them: no
    result depends on signs. phi is a GIN of two layers and 16 channels (our choice).
    Eigenvectors that a graph does not have are zero."""

    fields = ("lap_pe", "bond")
    random = False

    def __init__(self, vocabularies: Vocabularies, num_vectors: int = 8) -> None:
        super().__init__(vocabularies, num_vectors)
        self.num_features = 16 * num_vectors
        self.first = nn.Linear(1, 16)
        self.second = nn.Linear(16, 16)
        self.hidden = nn.Linear(self.num_features, self.num_features)

    def forward(self, lap_pe: Tensor, bond: Tensor) -> Tensor:
        """lap_pe [B, N, >= k], bond [B, N, N], 0 = none -> [B, N, 16 k]."""
        lap_pe = lap_pe[..., : self.num_vectors].to(self.first.weight.dtype)
        nearby = (bond != 0).to(lap_pe.dtype)
        both = torch.stack([lap_pe, -lap_pe])
        hidden = self.first((nearby @ both + both).unsqueeze(-1)).relu()
        around = (nearby @ hidden.flatten(3)).view_as(hidden)  # [2, B, N, k, 16]
        vectors = self.second(around + hidden).sum(0)
        exists = (lap_pe != 0).any(1, keepdim=True).unsqueeze(-1)
        return self.hidden((vectors * exists).flatten(2)).relu()


@register_node_encoding("degrees")
class Degrees(NodeEncoding):
    """A vector per in-degree plus one per out-degree, Eq. 5 of Ying et al. 2021.

    Degrees beyond a table share its last row. Weisfeiler-Lehman roles are degrees in the
    released code of Dwivedi & Bresson 2021.

    Args:
        num_in_degree: rows for in-degrees, h_i = x_i + z^-[deg^-(i)] + z^+[deg^+(i)].
        num_out_degree: rows for out-degrees; 0: h_i = x_i + z[deg(i)], for undirected
            graphs, where both degrees are the same number (`in_degree` is read).
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        num_in_degree: int = 512,
        num_out_degree: int = 512,
    ) -> None:
        super().__init__(vocabularies)
        self.rows = (num_in_degree, num_out_degree)[: 2 if num_out_degree else 1]
        self.num_features = len(self.rows)
        self.fields = ("in_degree", "out_degree")[: self.num_features]

    def forward(self, *degrees: Tensor) -> Tensor:
        """In-degree and, with two tables, out-degree [B, N] -> [B, N, 1 or 2]."""
        return torch.stack(degrees, -1)

    def projection(self, width: int) -> nn.Module:
        """See `NodeEncoding`: tables."""
        return DegreeTables(self.rows, width)


class DegreeTables(nn.Module):
    """Sum of the vectors of one or two degrees."""

    def __init__(self, rows: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in rows)

    def forward(self, degrees: Tensor) -> Tensor:
        """[B, N, tables] -> [B, N, width]."""
        return sum(
            table(degree.int().clamp(max=table.num_embeddings - 1))
            for table, degree in zip(self.tables, degrees.unbind(-1))
        )


@register_node_encoding("wl")
class WLRoles(NodeEncoding):
    """A vector per Weisfeiler-Lehman role of two rounds, a degree with the degrees of the
    neighbours. Role r has row r mod `num_rows`; 70 rows hold all roles with degrees up to 4,
    252 up to 5 and 924 up to 6 (`graphormer_plugin.data.batches.fields.weisfeiler_lehman`).
    """

    fields = ("wl_role",)
    num_features = 1

    def __init__(self, vocabularies: Vocabularies, num_rows: int = 70) -> None:
        super().__init__(vocabularies)
        self.num_rows = num_rows

    def forward(self, role: Tensor) -> Tensor:
        """Role [B, N], >= 0 -> row [B, N]."""
        return role.int() % self.num_rows

    def projection(self, width: int) -> nn.Module:
        """See `NodeEncoding`: a table."""
        return nn.Embedding(self.num_rows, width)
