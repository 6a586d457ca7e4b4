"""Vectors of graphs and nodes out of the layers of a trained model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphormer_plugin.models import GraphModel


def layer_vectors(
    model: GraphModel, batch: dict[str, Tensor], layers: int = 1, nodes: bool = False
) -> Tensor:
    """Concatenates the output of the last layers for graphs or nodes.

    Args:
        model: A model in evaluation mode.
        batch: The fields of its `batch_spec`.
        layers: Number of layers. The last one counts after the encoder's final
            normalisation, the others do not pass through it.
        nodes: Vectors of nodes instead of graphs.

    Returns:
        [B, layers * D]: the virtual node, or without one the model's read-out of the
        nodes. With `nodes` [B, N, layers * D] without the virtual node, where padding
        has any values.

    Raises:
        ValueError: The encoder has fewer layers.
    """
    check_layers(model, layers)
    outputs: list[Tensor] = []

    def record(module: nn.Module, arguments: tuple, output: Any) -> None:
        x = output[0] if isinstance(output, tuple) else output
        outputs.append(model.encoder.padded(x, batch))

    modules = list(model.encoder.layers)
    earlier = modules[len(modules) - layers : -1]
    handles = [module.register_forward_hook(record) for module in earlier]
    try:
        outputs.append(model.encoder(batch))
    finally:
        for handle in handles:
            handle.remove()
    if nodes:
        return torch.cat([model.nodes(x) for x in outputs], -1)
    mask = batch["node_mask"]
    return torch.cat([model.graphs(x, mask) for x in outputs], -1)


def check_layers(model: GraphModel, layers: int) -> None:
    """Raises ValueError where the encoder has fewer layers, or none is asked for."""
    most = len(model.encoder.layers)
    if not 1 <= layers <= most:
        raise ValueError(f"{layers} layers, expected 1 to {most}, the model's")
