"""Explanations of a prediction: attention maps, and gradient times input."""

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

    def _record(module: nn.Module, arguments: tuple) -> None:
        maps.append(module.attention_weights(*arguments)[0])

    with hooked(modules, _record, before=True):
        model(batch)
    return torch.stack(maps)


def gradient_times_input(model: GraphModel, batch: Batch, output: int = 0) -> Tensor:
    """Gradient of an output times the input of the first layer, summed over channels [N].

    The entry of a node is the change of the output as its input is scaled,
    d output((1 + s) input_i) / ds at s = 0; for a linear model the entries sum up to the
    output. The virtual node is left out.
    """
    if model.level != "graph":
        raise ValueError("only predictions of graphs can be explained")
    inputs: list[Tensor] = []

    def _record(module: nn.Module, arguments: tuple) -> tuple:
        if inputs:  # a later run of the layers
            return arguments
        inputs.append(arguments[0].detach().requires_grad_())
        return (inputs[0], *arguments[1:])

    first = [model.encoder.layers[0]]
    with hooked(first, _record, before=True), torch.enable_grad():
        (gradient,) = torch.autograd.grad(model(batch)[0, output], inputs)
    product = (gradient * inputs[0]).sum(-1).detach()
    return model.nodes(model.encoder.padded(product, batch))[0]
