"""Columns of what a model reads that have one value in the training graphs."""

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from graphormer_plugin.data.batches.fields import FIELDS
from graphormer_plugin.data.errors import agreed, listed
from graphormer_plugin.modules.encodings.node_encodings import NODE_ENCODINGS
from graphormer_plugin.modules.encodings.pair_encodings import PAIR_ENCODINGS
from graphormer_plugin.modules.encodings.registry import Encoding
from graphormer_plugin.tasks._dataset import GraphDataset

MOST_GRAPHS = 1000  # that are compared; our choice
ROUNDING = 1e-6  # of float32, by which equal numbers differ


@torch.no_grad()
def lines_about_constants(
    model: nn.Module, dataset: GraphDataset, graph_features: Sequence[str]
) -> list[str]:
    """A line for each real field of the batches, and each encoding computed from other fields,
    that has columns of one value; ``graph_features`` names the numbers of graphs."""
    low: dict[str, Tensor] = {}
    high: dict[str, Tensor] = {}
    constant: dict[str, Tensor] = {}
    count = min(len(dataset), MOST_GRAPHS)
    for position in range(count):
        batch = dataset.collater([position])["net_input"]["batch"]
        for name, values in _numbers(model, batch):
            low[name] = torch.minimum(low.get(name, values[0]), values.amin(0))
            high[name] = torch.maximum(high.get(name, values[0]), values.amax(0))
            noise = ROUNDING * high[name].abs().clamp(min=1)
            constant[name] = high[name] - low[name] <= noise
        if constant and not any(map(torch.any, constant.values())):
            break
    graphs = "all" if count == len(dataset) else f"the first {count:,}"
    lines = []
    for name, is_constant in constant.items():
        if numbers := is_constant.nonzero().flatten().tolist():
            names = (
                graph_features if name == "graph_features" else range(len(is_constant))
            )
            columns = f"column{'s' * (len(numbers) > 1)} {listed([names[n] for n in numbers], 8)}"
            have = (
                f"{agreed(len(numbers), 'have')} one value in {graphs} training graphs"
            )
            lines.append(f"{name}: {columns} of {len(is_constant)} {have}")
    return lines


def _numbers(
    model: nn.Module, batch: dict[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the rows [n, columns] of real fields and encodings of one graph, which
    has no padding."""
    real = {name for name, values in batch.items() if values.is_floating_point()}
    for name in real:
        rows = sum(map(FIELDS[name].shape.count, "BNEM"))
        shape = batch[name].shape
        if math.prod(shape):
            yield name, batch[name].reshape(math.prod(shape[:rows]), -1)
    for module in model.modules():
        if isinstance(module, Encoding) and not real & {*module.fields}:
            known = itertools.chain(NODE_ENCODINGS.items(), PAIR_ENCODINGS.items())
            name = next((n for n, made in known if made is type(module)), "an encoding")
            on_device = {n: v.to(module.one.device) for n, v in batch.items()}
            training = module.training
            numbers = module.eval()(*module.arguments(on_device))
            module.train(training)
            yield name, numbers.reshape(-1, numbers.shape[-1])
