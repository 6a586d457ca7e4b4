"""Vectors of edges, from their joint bond types or from real features."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice
from graphormer_plugin.modules.encodings.node_encoder import project_wide
from graphormer_plugin.modules.encodings.vocabulary import (
    RowLabels,
    Vocabularies,
    VocabularyModule,
    column_labels,
    table_rows,
)
from graphormer_plugin.modules.layers.embedding_sum import embedding_sum


class EdgeEncoder(VocabularyModule):
    """Vectors of edges with real features, a linear map with bias (Eq. 2 of Dwivedi &
    Bresson 2021). Its table has a row per edge of the batch, and edge numbers replace bond
    types."""

    fields = ("edge_attr",)

    def __init__(self, num_features: int, embed_dim: int) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.projection = nn.Linear(num_features, embed_dim)

    def forward(self, edge_attr: Tensor) -> Tensor:
        """edge_attr [E, C] -> [E + 1, D], row 0 (no edge) zero."""
        return F.pad(project_wide(self.projection, edge_attr), (0, 0, 1, 0))


class FeatureMap(VocabularyModule):
    """Weight [D, C] of a linear map of C real features of edges, without bias."""

    feature_weight = "weight"

    def __init__(self, num_features: int, embed_dim: int) -> None:
        super().__init__()
        self.weight = nn.Linear(num_features, embed_dim, bias=False).weight


class BondEncoder(VocabularyModule):
    """A table with one vector per joint bond type: the mean, or the sum, of one
    embedding per bond column.

    The table is small and computed once per step; pairs look up their type in it. Row 0,
    no bond, is zero. The UNKNOWN type of a dataset with too many combinations has a row
    of its own in every column. If there are no bond columns, all bonds share a vector.

    Args:
        table_size: rows of every column's table; 0 gives each column its vocabulary.
            The published code of Graphormer uses 512.
        combine: how the columns are joined, "mean" or "sum".
    """

    fields = ()

    def __init__(
        self,
        vocabularies: Vocabularies,
        embed_dim: int,
        table_size: int = 0,
        combine: str = "mean",
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        check_choice("combine", combine, ("mean", "sum"))
        self.combine = combine
        bond_dims = vocabularies.bond_dims
        columns = torch.as_tensor(vocabularies.bond_columns())[1:]
        if not bond_dims:  # one column with one value
            bond_dims = [1]
            columns = columns.new_zeros(len(columns), 1)
        needed = [dim + bool((columns < 0).any()) for dim in bond_dims]
        rows, first = table_rows(needed, table_size, "bond")
        unknown = columns.new_tensor(bond_dims)  # the row after the vocabulary
        index = torch.where(columns < 0, unknown, columns) + first
        self.register_buffer("rows", index, persistent=False)
        self.table_rows = rows  # a number for each column
        self.embedding = nn.Embedding(sum(rows), embed_dim)

    @property
    def num_bond_types(self) -> int:
        """K."""
        return len(self.rows)

    def forward(self) -> Tensor:
        """-> [K + 1, D], row 0 zero."""
        vectors = self.embedding(self.rows)
        vectors = vectors.mean(1) if self.combine == "mean" else vectors.sum(1)
        return torch.cat([torch.zeros_like(vectors[:1]), vectors])

    def row_labels(
        self, vocabularies: Vocabularies, weights: dict[str, Tensor]
    ) -> dict[str, RowLabels]:
        """Column and value of each row, for weights that were trained with these
        vocabularies (see `graphormer_plugin.modules.encodings.vocabulary`)."""
        if "embedding.weight" not in weights:
            return {}
        rows = len(weights["embedding.weight"])
        if vocabularies.bond_dims:
            unknown = vocabularies.bond_table is not None
            labels = column_labels(vocabularies.bond_dims, rows, unknown)
        else:
            labels = ["any bond"] + [None] * (rows - 1)
        return {"embedding.weight": RowLabels(0, labels)}


class LengthEncoder(nn.Module):
    """Vectors of edges with lengths: those of their bonds plus a linear map of the kernels of
    the lengths (our choice). Its table has a row per edge, like that of `EdgeEncoder`.
    """

    def __init__(self, bonds: BondEncoder | EdgeEncoder, num_kernels: int) -> None:
        super().__init__()
        self.bonds = bonds
        self.embed_dim = bonds.embed_dim
        self.projection = nn.Linear(num_kernels, bonds.embed_dim)

    def forward(self, kernels: Tensor, bond: Tensor) -> Tensor:
        """Kernels [E, K] and bond types [E] or real features [E, C] of edges -> [E + 1, D], row
        0 (no edge) zero."""
        if self.bonds.fields:
            vectors = self.bonds(bond)
        else:
            vectors = F.embedding(F.pad(bond, (1, 0)), self.bonds())
        kernels = kernels.to(self.projection.weight.dtype)
        return vectors + F.pad(self.projection(kernels), (0, 0, 1, 0))


EdgeVectors = BondEncoder | EdgeEncoder | LengthEncoder


def edge_encoder(
    vocabularies: Vocabularies,
    embed_dim: int,
    *args: Any,
    num_kernels: int = 0,
    **kwargs: Any,
) -> EdgeVectors:
    """`EdgeEncoder` for edges with real features, else `BondEncoder` with the other
    arguments; in a `LengthEncoder` if lengths have kernels. `forward` of the first two takes
    the batch's `fields`; all return a table of vectors.
    """
    if vocabularies.num_edge_features:
        bonds = EdgeEncoder(vocabularies.num_edge_features, embed_dim)
    else:
        bonds = BondEncoder(vocabularies, embed_dim, *args, **kwargs)
    return LengthEncoder(bonds, num_kernels) if num_kernels else bonds


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
