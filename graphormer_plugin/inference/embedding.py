"""Vectors of graphs and nodes out of the layers of a trained model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphormer_plugin.modules.readout import read_out
from graphormer_plugin.modules.sparse import NodeLayout


def layer_vectors(
    model: nn.Module, batch: dict[str, Tensor], layers: int = 1, nodes: bool = False
) -> Tensor:
    """What the last layers know of graphs or nodes, side by side.

    Args:
        model: A model in evaluation mode, with `encoder.layers`.
        batch: Its fields.
        layers: The last so many. The last layer counts after the encoder's final
            normalisation, those before as they come.
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
        if x.ndim == 2:  # nodes one after another
            x = NodeLayout(batch["node_mask"], batch["node_graph"]).pad(x)
        outputs.append(x)

    modules = list(model.encoder.layers)
    earlier = modules[len(modules) - layers : -1]
    handles = [module.register_forward_hook(record) for module in earlier]
    try:
        outputs.append(model.encoder(batch))
    finally:
        for handle in handles:
            handle.remove()
    if nodes:
        first = int(model.virtual_node)
        return torch.cat([x[:, first:] for x in outputs], -1)
    if model.virtual_node:
        return torch.cat([x[:, 0] for x in outputs], -1)
    mask = batch["node_mask"]
    return torch.cat([read_out(x, mask, model.readout) for x in outputs], -1)


def check_layers(model: nn.Module, layers: int) -> None:
    """Raises ValueError unless the encoder has so many layers, and at least one."""
    most = len(model.encoder.layers)
    if not 1 <= layers <= most:
        raise ValueError(f"{layers} layers, expected 1 to {most}, the model's")
