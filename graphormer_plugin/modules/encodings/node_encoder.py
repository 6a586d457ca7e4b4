"""The input of a model: vectors of nodes from their raw columns and encodings, and the
virtual node in front of them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.encodings.node_encodings import NODE_ENCODINGS, NodeTerm
from graphormer_plugin.modules.encodings.vocabulary import (
    RowLabels,
    Vocabularies,
    VocabularyModule,
    column_labels,
    table_rows,
)
from graphormer_plugin.modules.layers.encoder_config import LayersConfig
from graphormer_plugin.modules.layers.sparse import Batch, wide_type


class NodeEncoder(VocabularyModule):
    """Sum of one embedding per categorical column, or a linear map of continuous
    features, with the encodings of `--node-encodings` added to it or beside it.

    Args:
        config: the width D, `node_table_size`, `node_encodings` and `node_encoding_dim`.
        table_size: rows of every column's table, 512 in the published code of Graphormer
            and GRPE; 0: `node_table_size`, where 0 gives each column its vocabulary.
        **sizes: numbers of an encoding whose name has none.
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        config: LayersConfig,
        table_size: int = 0,
        **sizes: tuple[int, ...],
    ) -> None:
        super().__init__()
        channels = config.node_encoding_dim
        encodings = NODE_ENCODINGS.make(
            config.node_encodings, config, vocabularies, **sizes
        )
        embed_dim = config.encoder_embed_dim - channels * len(encodings)
        if channels < 0 or embed_dim < 1:
            raise ValueError(
                f"node_encoding_dim {channels} of {len(encodings)} encodings, expected 0 "
                f"or less than the width {config.encoder_embed_dim} together"
            )
        self._embed(vocabularies, embed_dim, table_size or config.node_table_size)
        self.beside = channels > 0
        self.encodings = nn.ModuleList(
            NodeTerm(encoding, channels or embed_dim) for encoding in encodings
        )

    def _embed(
        self, vocabularies: Vocabularies, embed_dim: int, table_size: int
    ) -> None:
        """Make the tables or the linear map of the raw columns."""
        node_dims = vocabularies.node_dims
        num_features = vocabularies.num_node_features
        self.categorical = node_dims is not None
        if not self.categorical:
            check_least("num_node_features", num_features, 1)
            self.projection = nn.Linear(num_features, embed_dim)
            return
        if not node_dims:
            raise ValueError(
                "node_dims is empty, expected one vocabulary size a column"
            )
        rows, first = table_rows(node_dims, table_size, "node")
        self.register_buffer("first_row", first, persistent=False)
        self.table_rows = rows  # a number for each column
        self.embedding = nn.EmbeddingBag(sum(rows), embed_dim, mode="sum")

    def forward(self, batch: Batch) -> Tensor:
        """A batch, with x [B, N, F] of integers within the vocabularies or floats ->
        [B, N, D]."""
        x = self.features(batch["x"])
        vectors = [term(batch).to(x.dtype) for term in self.encodings]
        return torch.cat([x, *vectors], -1) if self.beside else sum(vectors, x)

    def features(self, x: Tensor) -> Tensor:
        """x [..., F] -> [..., D], without the channels of encodings."""
        if not self.categorical:
            return project_wide(self.projection, x)
        rows = x.long() + self.first_row
        return self.embedding(rows.flatten(0, -2)).view(*x.shape[:-1], -1)

    def row_labels(
        self, vocabularies: Vocabularies, weights: dict[str, Tensor]
    ) -> dict[str, RowLabels]:
        """Column and value of each row, for weights that were trained with these
        vocabularies (see `graphormer_plugin.modules.encodings.vocabulary`)."""
        if "embedding.weight" not in weights:
            return super().row_labels(vocabularies, weights)
        rows = len(weights["embedding.weight"])
        labels = RowLabels(0, column_labels(vocabularies.node_dims, rows))
        return {"embedding.weight": labels}


def project_wide(projection: nn.Linear, x: Tensor) -> Tensor:
    """A linear map of raw features, in float32 at least: in half precision 70,000 is
    infinite, and 1.001 is 1. The result has the type of the weights."""
    weight = projection.weight
    bias = projection.bias
    wide = wide_type(weight)
    with torch.autocast(x.device.type, enabled=False):
        projected = F.linear(x.to(wide), weight.to(wide), bias.to(wide))
    return projected.to(weight.dtype)


class VirtualNode(nn.Module):
    """Puts one learned vector, the virtual node, before the nodes: [B, N, D] ->
    [B, N + 1, D]. The mask marks it as real."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1, embed_dim)

    def forward(self, x: Tensor, node_mask: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, N, D], node_mask [B, N] -> [B, N + 1, D], [B, N + 1]."""
        x = torch.cat([self.embedding.weight.expand(x.shape[0], 1, -1), x], dim=1)
        return x, F.pad(node_mask, (1, 0), value=True)
