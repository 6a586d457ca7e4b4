"""How models start that do not have torch's defaults."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def init_transformer(module: nn.Module, num_layers: int = 1) -> None:
    """Weights of linear maps N(0, 0.02 / sqrt(num_layers)), biases 0, embeddings N(0,
    0.02).

    With the depth the initialisation of Graphormer's first release
    (`init_bert_params`), without it that of the second (`--apply-graphormer-init`); the
    paper states none. Use as `model.apply(lambda m: init_transformer(m, num_layers))`.
    """
    if isinstance(module, nn.Linear):
        module.weight.data.normal_(0.0, 0.02 / math.sqrt(num_layers))
        if module.bias is not None:
            module.bias.data.zero_()
    elif isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        module.weight.data.normal_(0.0, 0.02)


def init_columns_xavier(encoder: nn.Module) -> None:
    """Table of each column of a `NodeEncoder` or `BondEncoder` Xavier-uniform by itself,
    as OGB's encoders of atoms and bonds start."""
    if hasattr(encoder, "embedding"):  # not a linear map of continuous features
        for table in encoder.embedding.weight.data.split(encoder.table_rows):
            nn.init.xavier_uniform_(table)


@torch.no_grad()
def init_columns(table: Tensor, rows: Sequence[int], averaged: bool = False) -> None:
    """Tables of several columns as those of OGB's encoders of atoms and bonds:
    xavier_uniform, each on its own. A single column keeps its start.

    Args:
        table: [sum of rows, D], one column after the other.
        rows: of each column.
        averaged: the vectors of the columns are averaged, where OGB sums them; they
            start larger by their number.
    """
    if len(rows) == 1:
        return
    for part in table.split(list(rows)):
        nn.init.xavier_uniform_(part, len(rows) if averaged else 1)
