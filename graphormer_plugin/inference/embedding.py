"""Vectors of graphs and nodes out of the layers of a trained model."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.models import GraphModel


def layer_vectors(
    model: GraphModel,
    batch: dict[str, Tensor],
    layers: int = 1,
    nodes: bool = False,
    fingerprint: bool = False,
) -> Tensor:
    """Concatenates the output of the last layers for graphs or nodes.

    Args:
        model: A model in evaluation mode.
        batch: The fields of its `batch_spec`.
        layers: Number of layers. The last one counts after the encoder's final
            normalisation, the others do not pass through it.
        nodes: Vectors of nodes instead of graphs.
        fingerprint: GRPE's fingerprints: no layer's output passes through the final
            normalisation, and each layer's vector is divided by its L2 norm.

    Returns:
        [B, layers * D]: the virtual node, or without one the model's read-out of the
        nodes. With `nodes` [B, N, layers * D] without the virtual node, where padding
        has any values.

    Raises:
        ValueError: The encoder has fewer layers, or a fingerprint of nodes or of a model
            without a virtual node.
    """
    check_layers(model, layers)
    if fingerprint:
        check_fingerprint(model, nodes)
    outputs: list[Tensor] = []

    def record(module: nn.Module, arguments: tuple, output: Any) -> None:
        x = output[0] if isinstance(output, tuple) else output
        outputs.append(model.encoder.padded(x, batch))

    modules = list(model.encoder.layers)
    recorded = modules[len(modules) - layers : None if fingerprint else -1]
    handles = [module.register_forward_hook(record) for module in recorded]
    try:
        last = model.encoder(batch)
    finally:
        for handle in handles:
            handle.remove()
    if fingerprint:
        return torch.cat([F.normalize(x[:, 0], dim=-1) for x in outputs], -1)
    outputs.append(last)
    if nodes:
        return torch.cat([model.nodes(x) for x in outputs], -1)
    mask = batch["node_mask"]
    return torch.cat([model.graphs(x, mask) for x in outputs], -1)


def output_and_vectors(
    model: GraphModel, batch: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Output of a model of graphs, and the vectors [B, D] that `layer_vectors` gives."""
    found: list[Tensor] = []
    hook = model.encoder.register_forward_hook(lambda *call: found.append(call[-1]))
    try:
        output = model(batch)
    finally:
        hook.remove()
    if not found:  # the head reads all layers, which is another call of the encoder
        return output, layer_vectors(model, batch)
    return output, model.graphs(found[0], batch["node_mask"])


def check_layers(model: GraphModel, layers: int) -> None:
    """Raises ValueError where the encoder has fewer layers, or none is asked for."""
    most = len(model.encoder.layers)
    if not 1 <= layers <= most:
        raise ValueError(f"{layers} layers, expected 1 to {most}, the model's")


def check_fingerprint(model: GraphModel, nodes: bool) -> None:
    """Raises ValueError where GRPE's fingerprints are not defined."""
    if nodes:
        raise ValueError("GRPE's fingerprints are of molecules, not of atoms")
    if not model.virtual_node:
        raise ValueError(
            "GRPE's fingerprints are vectors of the virtual node, which the model does "
            "not have"
        )
