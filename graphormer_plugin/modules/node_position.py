"""Encodings of the position of a node in its graph, added to the node input."""

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.bond_encoder import BondEncoder, EdgeEncoder
from graphormer_plugin.modules.embedding_sum import embedding_sum
from graphormer_plugin.modules.graph_random import SIGNS, uniform
from graphormer_plugin.modules.sparse import NodeLayout


class CentralityEncoding(nn.Module):
    """One vector per in-degree plus one per out-degree, Eq. 5 of Ying et al. 2021.

    Degrees beyond the table share its last row.

    Args:
        num_in_degree: rows for in-degrees, h_i = x_i + z^-[deg^-(i)] + z^+[deg^+(i)].
        num_out_degree: rows for out-degrees; 0: h_i = x_i + z[deg(i)], for undirected
            graphs, where both degrees are the same number (`in_degree` is read).
    """

    def __init__(
        self, embed_dim: int, num_in_degree: int = 512, num_out_degree: int = 512
    ) -> None:
        super().__init__()
        check_least("num_in_degree", num_in_degree, 1)
        check_least("num_out_degree", num_out_degree, 0)
        self.in_degree = nn.Embedding(num_in_degree, embed_dim)
        self.out_degree = (
            nn.Embedding(num_out_degree, embed_dim) if num_out_degree else None
        )

    @property
    def fields(self) -> tuple[str, ...]:
        """Batch fields that `forward` reads, in its order."""
        return ("in_degree", "out_degree")[: 1 if self.out_degree is None else 2]

    def forward(self, *degrees: Tensor) -> Tensor:
        """In-degree and, with two tables, out-degree [B, N] -> [B, N, D]."""
        tables = (self.in_degree, self.out_degree)
        return sum(
            table(degree.int().clamp(max=table.num_embeddings - 1))
            for table, degree in zip(tables, degrees)
        )


class LaplacianEncoding(nn.Module):
    """Linear map of Laplacian eigenvectors. Their signs are arbitrary, so that each
    eigenvector of each graph has a random sign in training (Dwivedi & Bresson 2021,
    arXiv:2012.09699). The signs follow from the seeds of the graphs, if there are any.

    Args:
        num_vectors: number k of eigenvectors that are used; a batch may have more.
    """

    fields = ("lap_pe",)

    def __init__(self, num_vectors: int, embed_dim: int) -> None:
        super().__init__()
        check_least("lap_pe_dim", num_vectors, 1)
        self.num_vectors = num_vectors
        self.projection = nn.Linear(num_vectors, embed_dim)

    def forward(self, lap_pe: Tensor, seed: Tensor | None = None) -> Tensor:
        """lap_pe [B, N, >= k], seed of each graph's signs [B] -> [B, N, D]."""
        k = self.num_vectors
        if lap_pe.shape[-1] < k:
            raise ValueError(
                f"lap_pe has {lap_pe.shape[-1]} eigenvectors, expected {k} or more"
            )
        lap_pe = lap_pe[..., :k].to(self.projection.weight.dtype)
        if self.training:
            draws = uniform(seed, torch.Size([len(lap_pe), 1, k]), SIGNS, lap_pe)
            lap_pe = torch.where(draws < 0, -lap_pe, lap_pe)
        return self.projection(lap_pe)


def position_vectors(encoding: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """An encoding of the nodes of a batch, [B, N, D]; `LaplacianEncoding` also reads the
    batch's seed."""
    fields = [batch[name] for name in encoding.fields]
    if isinstance(encoding, LaplacianEncoding):
        fields.append(batch.get("seed"))
    return encoding(*fields)


class WLEncoding(nn.Module):
    """One vector per Weisfeiler-Lehman role (Table 3 of Dwivedi & Bresson 2021).

    Args:
        rounds: 1: a role is a degree, as in the released code, and higher degrees share
            the last row. 2: a role is a degree with the degrees of the neighbours, and role r
            has row r mod `num_rows` (`graphormer_plugin.data.batches.fields.weisfeiler_lehman`).
    """

    def __init__(self, num_rows: int, embed_dim: int, rounds: int = 1) -> None:
        super().__init__()
        check_least("wl_rows", num_rows, 1)
        if rounds not in (1, 2):
            raise ValueError(f"wl_rounds {rounds}, expected 1 or 2")
        self.rounds = rounds
        self.embedding = nn.Embedding(num_rows, embed_dim)

    @property
    def fields(self) -> tuple[str, ...]:
        """Batch fields that `forward` reads, in its order."""
        return ("in_degree",) if self.rounds == 1 else ("wl_role",)

    def forward(self, role: Tensor) -> Tensor:
        """Degree or role [B, N], >= 0 -> [B, N, D]."""
        rows = self.embedding.num_embeddings
        role = role.int()
        return self.embedding(
            role.clamp(max=rows - 1) if self.rounds == 1 else role % rows
        )


class RandomWalkEncoding(nn.Module):
    """Linear map of the probabilities that a random walk is back after 1..K steps."""

    fields = ("bond",)

    def __init__(self, num_steps: int, embed_dim: int) -> None:
        super().__init__()
        check_least("num_steps", num_steps, 1)
        self.projection = nn.Linear(num_steps, embed_dim)

    def forward(self, bond: Tensor) -> Tensor:
        """bond [B, N, N], 0 = none -> [B, N, D]."""
        weight = self.projection.weight
        walk = return_probabilities(bond, self.projection.in_features)
        return self.projection(walk.to(weight.dtype))


class WalkChannels(nn.Module):
    """The random-walk encoding of GraphGPS: `return_probabilities` of 1..K steps, BatchNorm
    over the nodes, and a linear map to channels beside those of the node's features."""

    fields = ("bond", "node_mask", "node_graph")

    def __init__(self, num_steps: int, num_channels: int) -> None:
        super().__init__()
        check_least("rwse_steps", num_steps, 1)
        self.norm = MaskedBatchNorm(num_steps)
        self.projection = nn.Linear(num_steps, num_channels)

    def forward(self, bond: Tensor, node_mask: Tensor, node_graph: Tensor) -> Tensor:
        """bond [B, N, N], 0 = none, and the mask and graphs of the nodes -> [B, N, channels]."""
        weight = self.projection.weight
        walk = return_probabilities(bond, self.projection.in_features, weight.dtype)
        rows = NodeLayout(node_mask, node_graph).flat_index
        return self.projection(self.norm(walk, rows).to(weight.dtype))


def walk_powers(
    bond: Tensor, num_steps: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """(D^-1 A)^k for k = 1..num_steps (Eq. 10 of Menegaux et al. 2023).

    Args:
        bond: [B, N, N], [i, j] not 0 where an edge goes from i to j. The walk follows
            edges and ends at a node that no edge leaves (probabilities 0). Self-loops do
            not count, and parallel edges count once; PyG's `AddRandomWalkPE` has both.
        num_steps: K, at least 1.
        dtype: number format of the computation, float32 or wider.

    Returns:
        [B, N, N, K].
    """
    return torch.stack(_walk_powers(bond, num_steps, dtype), -1)


def return_probabilities(
    bond: Tensor, num_steps: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Diagonals of `walk_powers`, [B, N, K] in float32 or, for float64, float64; K at least
    1."""
    powers = _walk_powers(bond, num_steps, torch.promote_types(dtype, torch.float32))
    return torch.stack([power.diagonal(dim1=1, dim2=2) for power in powers], -1)


def _walk_powers(bond: Tensor, num_steps: int, dtype: torch.dtype) -> list[Tensor]:
    with torch.autocast(bond.device.type, enabled=False):
        step = (bond != 0).to(dtype)
        step = step / step.sum(-1, keepdim=True).clamp_(min=1)
        powers = [step]
        while len(powers) < num_steps:
            powers.append(powers[-1] @ step)
    return powers


class IncidentBonds(nn.Module):
    """Sum of the vectors of a node's outgoing bonds, the edge encoding "via node" of
    Table 5 of Ying et al. 2021 (for an undirected graph, all its bonds)."""

    def __init__(self, bonds: BondEncoder | EdgeEncoder) -> None:
        super().__init__()
        self.bonds = bonds
        self.fields = ("bond", *bonds.fields)

    def forward(self, bond: Tensor, *edge_attr: Tensor) -> Tensor:
        """bond [B, N, N], 0 = none, and the fields of the vectors -> [B, N, D]."""
        return embedding_sum(self.bonds(*edge_attr), bond.int())
