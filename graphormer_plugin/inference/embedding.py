"""Vectors of graphs and nodes out of the layers of a trained model."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice
from graphormer_plugin.inference import VECTOR_PARTS
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.layers.readout import read_out
from graphormer_plugin.modules.layers.sparse import Batch


@contextlib.contextmanager
def hooked(modules: Iterable[nn.Module], hook: Callable[..., Any]) -> Iterator[None]:
    """Call a hook after the forward pass of some modules."""
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(module.register_forward_hook(hook))
        yield


def layer_vectors(
    model: GraphModel,
    batch: Batch,
    layers: int = 1,
    nodes: bool = False,
    fingerprint: bool = False,
) -> Tensor:
    """Concatenate the output of the last layers for graphs or nodes.

    The last layer counts after the encoder's final normalisation, the others do not pass
    through it.

    Args:
        fingerprint: GRPE's fingerprints: no layer's output passes through the final
            normalisation, and each layer's vector is divided by its L2 norm.

    Returns:
        [B, layers * D]: the virtual node, or without it the model's read-out of the
        nodes. With `nodes` [B, N, layers * D] without the virtual node; padding may have
        any value.
    """
    check_layers(model, layers, nodes, fingerprint)
    outputs: list[Tensor] = []

    def _record(module: nn.Module, arguments: tuple, output: Any) -> None:
        x = output[0] if isinstance(output, tuple) else output
        outputs.append(model.encoder.padded(x, batch))

    modules = list(model.encoder.layers)
    recorded = modules[len(modules) - layers : None if fingerprint else -1]
    with hooked(recorded, _record):
        last = model.encoder(batch)
    outputs = outputs[len(outputs) - len(recorded) :]  # those of the last run
    if fingerprint:
        return torch.cat([F.normalize(x[:, 0], dim=-1) for x in outputs], -1)
    outputs.append(last)
    if nodes:
        return torch.cat([model.nodes(x) for x in outputs], -1)
    mask = batch["node_mask"]
    return torch.cat([model.graphs(x, mask) for x in outputs], -1)


def output_and_vectors(model: GraphModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Output of a model of graphs, and its vectors [B, D] as of `layer_vectors`."""
    output, x = _output_and_last_layer(model, batch)
    return output, model.graphs(x, batch["node_mask"])


def _output_and_last_layer(model: GraphModel, batch: Batch) -> tuple[Tensor, Tensor]:
    last: list[Tensor] = []
    with hooked([model.encoder], lambda *call: last.append(call[-1])):
        output = model(batch)
    # A head that reads all layers calls the encoder in another way.
    return output, last[0] if last else model.encoder(batch)


def joined_vectors(model: GraphModel, batch: Batch, parts: Sequence[str]) -> Tensor:
    """Concatenate some of `VECTOR_PARTS` for each graph [B, D'], D' the sum of
    `widths`."""
    output, x = _output_and_last_layer(model, batch)
    mask = batch["node_mask"]
    made = {
        "graph": model.graphs(x, mask),
        "nodes": read_out(model.nodes(x), mask, "mean"),
        "outputs": output,
    }
    return torch.cat([made[part] for part in parts], -1)


def widths(model: GraphModel, outputs: int, parts: Sequence[str]) -> list[int]:
    """Lengths of some of `VECTOR_PARTS`; ValueError for another word."""
    for part in parts:
        check_choice("vectors", part, VECTOR_PARTS)
    return [outputs if part == "outputs" else model.embed_dim for part in parts]


def check_layers(
    model: GraphModel, layers: int, nodes: bool = False, fingerprint: bool = False
) -> None:
    """Check the arguments of `layer_vectors`."""
    most = len(model.encoder.layers)
    if not 1 <= layers <= most:
        raise ValueError(f"{layers} layers, expected 1 to {most}, the model's")
    if fingerprint and nodes:
        raise ValueError("GRPE's fingerprints are of molecules, not of atoms")
    if fingerprint and not model.virtual_node:
        raise ValueError(
            "GRPE's fingerprints are vectors of the virtual node, which the model does "
            "not have"
        )
