"""Labels of the rows of embedding tables, by which weights move between datasets.

Two datasets may number the same atom or bond differently. A module with tables over
such numbers is a `VocabularyModule`, which labels their rows; fine-tuning copies each row
to the row with an equal label.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Vocabularies(Protocol):
    """The possible values of nodes and bonds, which every encoder takes, such as
    `graphormer_plugin.data.schema.FeatureSchema`.

    Attributes:
        num_node_features: columns of the node features.
        node_dims: vocabulary size of each column; None: continuous features.
        bond_dims: vocabulary size of each bond column.
        bond_table: columns of each bond type except the last, which is UNKNOWN; None: the
            types are all combinations.
        num_edge_features: real numbers per edge, instead of bond columns.
    """

    num_node_features: int
    node_dims: list[int] | None
    bond_dims: list[int]
    bond_table: list[list[int]] | None
    num_edge_features: int

    @property
    def num_bond_types(self) -> int:
        """Bond types K, at least 1."""

    def bond_columns(self) -> Any:
        """-> [K + 1, columns], the columns of each type; row 0, no bond, and the row of
        UNKNOWN are -1."""


class VocabularyModule(nn.Module):
    """A module with weights over the values of a vocabulary, e.g. one row for each.

    Attributes:
        feature_weight: name of the weight of a linear map of features.
    """

    feature_weight = "projection.weight"

    def row_labels(
        self, vocabularies: Vocabularies, weights: dict[str, Tensor]
    ) -> dict[str, "RowLabels"]:
        """Labels of the rows of its weights, by name of the weight; by default the columns of
        the `feature_weight`.

        Args:
            vocabularies: vocabularies of the data of the training.
            weights: trained weights by their names in this module, perhaps with other
                shapes.
        """
        if self.feature_weight not in weights:
            return {}
        columns = range(weights[self.feature_weight].shape[1])
        labels = RowLabels(1, [("feature", column) for column in columns])
        return {self.feature_weight: labels}


class RowLabels(NamedTuple):
    """Labels along one dimension of a weight; None marks an unused row."""

    dim: int
    labels: list[Hashable | None]


def model_row_labels(
    model: nn.Module, vocabularies: Vocabularies, weights: Mapping[str, Tensor]
) -> dict[str, RowLabels]:
    """Labels of all weights over vocabularies, by full name.

    Args:
        vocabularies: vocabularies of the data of the training.
        weights: a state dict of this architecture, perhaps with other vocabularies.
    """
    labels: dict[str, RowLabels] = {}
    for prefix, module in model.named_modules():
        if not isinstance(module, VocabularyModule):
            continue
        start = prefix + "." if prefix else ""
        of_module = {
            name.removeprefix(start): tensor
            for name, tensor in weights.items()
            if name.startswith(start)
        }
        rows = module.row_labels(vocabularies, of_module)
        labels |= {start + name: row_labels for name, row_labels in rows.items()}
    return labels


def table_rows(dims: Sequence[int], size: int, what: str) -> tuple[list[int], Tensor]:
    """Rows of the table of each column, ``size`` if that is not 0, and the first row of each
    in a table of all; ValueError for a column of ``what`` with more values."""
    if size and max(dims) > size:
        raise ValueError(
            f"a {what} column has {max(dims)} values, table_size is {size}"
        )
    rows = [size or dim for dim in dims]
    return rows, torch.tensor([0, *rows[:-1]]).cumsum(0)


def column_labels(
    dims: Sequence[int], num_rows: int, unknown: bool = False
) -> list[Hashable | None]:
    """Labels of the tables of several columns, in the order of the columns.

    Args:
        num_rows: rows of all tables together, more than the vocabularies need if each
            column has a table of fixed size.
        unknown: each vocabulary is followed by a row for unknown values.

    Returns:
        (column, value) per row.
    """
    needed = [dim + unknown for dim in dims]
    tables = needed
    if sum(needed) != num_rows:
        tables = [num_rows // len(dims)] * len(dims)
    labels: list[Hashable | None] = []
    for column, (dim, size) in enumerate(zip(dims, tables)):
        values = [*range(dim), "unknown"][: dim + unknown]
        labels += [(column, value) for value in values]
        labels += [None] * (size - len(values))
    return labels
