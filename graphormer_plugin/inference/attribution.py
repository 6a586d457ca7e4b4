"""Explanations of a prediction: attention maps."""

import torch
from torch import Tensor, nn

from graphormer_plugin.inference.embedding import hooked
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.layers.sparse import Batch


@torch.no_grad()
def attention_maps(model: GraphModel, batch: Batch) -> Tensor:
    """Attention of every layer within a graph, in each of its runs.

    Returns:
        [runs of layers, heads or channels, T, T], row i the weights of query node i; the
        virtual node first, if the model has it.
    """
    modules = model.encoder.attention_modules()
    if not modules:
        raise ValueError(f"{type(model).__name__} has no attention maps")
    maps: list[Tensor] = []

    def _record(module: nn.Module, arguments: tuple, _: Tensor) -> None:
        maps.append(module.attention_weights(*arguments)[0])

    with hooked(modules, _record):
        model(batch)
    return torch.stack(maps)
