"""Initial weights of models that do not start from torch's defaults."""

import math

import torch
from torch import nn


def init_transformer(module: nn.Module, num_layers: int = 1) -> None:
    """Weights of linear maps N(0, 0.02 / sqrt(num_layers)), biases 0, embeddings N(0,
    0.02).

    Graphormer's first release divides by the depth (`init_bert_params`), its second release
    does not (`--apply-graphormer-init`). The paper states no initialisation. Used as
    `model.apply(partial(init_transformer, num_layers=...))`.
    """
    if isinstance(module, nn.Linear):
        module.weight.data.normal_(0.0, 0.02 / math.sqrt(num_layers))
        if module.bias is not None:
            module.bias.data.zero_()
    elif isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        module.weight.data.normal_(0.0, 0.02)


@torch.no_grad()
def init_columns(encoder: nn.Module, averaged: bool = False) -> None:
    """Start the tables of a `NodeEncoder` or `BondEncoder` as OGB's encoders of atoms and
    bonds do: xavier_uniform, each column's table on its own.

    Args:
        averaged: the encoder averages the vectors of the columns, and OGB sums them: they
            start larger by the number of columns.
    """
    rows = list(encoder.table_rows)
    for table in encoder.embedding.weight.split(rows):
        nn.init.xavier_uniform_(table, len(rows) if averaged else 1)
