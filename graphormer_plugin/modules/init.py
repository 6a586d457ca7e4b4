"""How Graphormer starts."""

import math

from torch import nn


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
