"""Joint bond types -> vectors of their bond columns."""

import math
from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor, nn

from .vocabulary import RowLabels, Vocabularies, column_labels


class BondEncoder(nn.Module):
    """A table with one vector per joint bond type: the mean of one embedding per bond
    column.

    The table is small and made once per step; pairs then look up their type in it. Row
    0, no bond, is zero. A type without columns (-1, the UNKNOWN type of a dataset with
    too many combinations) has one further row in every column. Without bond columns
    every bond has the same vector.

    Args:
        bond_dims: vocabulary size of each bond column; empty without columns.
        embed_dim: width D.
        bond_columns: [K + 1, columns], the columns of each type (row 0 is not read);
            None: the mixed-radix order of `bond_dims`, first column most significant.
        table_size: rows of every column's table; None gives each column its vocabulary.
            The published code of Graphormer uses 512.

    Raises:
        ValueError: `bond_columns` has another number of columns, or a vocabulary is
            larger than `table_size`.
    """

    def __init__(
        self,
        bond_dims: Sequence[int],
        embed_dim: int,
        bond_columns: Optional[Tensor] = None,
        table_size: Optional[int] = None,
    ) -> None:
        super().__init__()
        if bond_columns is None:
            ranges = [torch.arange(dim) for dim in bond_dims] or [torch.zeros(1)]
            types = torch.cartesian_prod(*ranges).reshape(math.prod(bond_dims), -1)
            bond_columns = torch.cat([torch.full_like(types[:1], -1), types])
        columns = torch.as_tensor(bond_columns).long()[1:]
        if not bond_dims:  # one column with one value
            bond_dims, columns = [1], columns.new_zeros(len(columns), 1)
        if columns.shape[1] != len(bond_dims):
            raise ValueError(
                f"bond_columns has {columns.shape[1]} columns, expected "
                f"{len(bond_dims)} (bond_dims)"
            )
        rows = [dim + bool((columns < 0).any()) for dim in bond_dims]
        if table_size is not None:
            if max(rows) > table_size:
                raise ValueError(
                    f"a bond column has {max(rows)} values, table_size is {table_size}"
                )
            rows = [table_size] * len(rows)
        unknown = columns.new_tensor(bond_dims)  # the row after the vocabulary
        first = torch.tensor([0, *rows[:-1]]).cumsum(0)
        index = torch.where(columns < 0, unknown, columns) + first
        self.register_buffer("rows", index, persistent=False)
        self.embedding = nn.Embedding(sum(rows), embed_dim)

    @property
    def num_bond_types(self) -> int:
        """K."""
        return len(self.rows)

    def forward(self) -> Tensor:
        """-> [K + 1, D], row 0 zero."""
        vectors = self.embedding(self.rows).mean(1)
        return torch.cat([torch.zeros_like(vectors[:1]), vectors])

    @staticmethod
    def row_labels(
        vocabularies: Vocabularies, weights: dict[str, Tensor]
    ) -> dict[str, RowLabels]:
        """Column and value of each row, for weights that were trained with these
        vocabularies (see `graphormer_plugin.modules.vocabulary`)."""
        if "embedding.weight" not in weights:
            return {}
        rows = len(weights["embedding.weight"])
        if vocabularies.bond_dims:
            unknown = vocabularies.bond_table is not None
            labels = column_labels(vocabularies.bond_dims, rows, unknown)
        else:
            labels = ["any bond"] + [None] * (rows - 1)
        return {"embedding.weight": RowLabels(0, labels)}
