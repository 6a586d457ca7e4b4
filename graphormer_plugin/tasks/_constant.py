"""Columns of what a model reads that have one value in the training graphs."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from graphormer_plugin.data.batches.fields import FIELDS
from graphormer_plugin.data.errors import listed
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.encodings.registry import Encoding
from graphormer_plugin.tasks._dataset import GraphDataset

MOST_GRAPHS = 1000  # that are compared; our choice
ROUNDING = 1e-6  # of float32, by which equal numbers differ


@torch.no_grad()
def lines_about_constants(model: GraphModel, dataset: GraphDataset) -> list[str]:
    """A line for each real field of the batches, and each encoding of other fields, that has
    columns of one value."""
    ends: dict[str, Tensor] = {}
    constant: dict[str, list[int]] = {}
    for position in range(min(len(dataset), MOST_GRAPHS)):
        batch = dataset.collater([position])["net_input"]["batch"]
        for name, rows, known in _numbers(model, batch):
            rows = torch.cat([rows, ends.get(name, rows[:0])])
            low, high = ends[name] = torch.stack(rows.aminmax(dim=0))
            is_constant = high - low <= ROUNDING * high.abs().clamp(min=1)
            is_constant[known] = False
            constant[name] = is_constant.nonzero().flatten().tolist()
        if not any(constant.values()):
            break
    graphs = f"{position + 1:,} of {len(dataset):,} training graphs"
    return [
        f"{name}: one value in {graphs}, column {listed(columns, 8)}"
        for name, columns in constant.items()
        if columns
    ]


def _numbers(
    model: GraphModel, batch: dict[str, Tensor]
) -> Iterator[tuple[str, Tensor, list[int]]]:
    """Yield the name, the rows [n, columns], and the columns of one value by definition, of
    real fields and encodings of one graph, which has no padding."""
    real = {name for name, values in batch.items() if values.is_floating_point()}
    for name in real:
        rows = sum(map(FIELDS[name].shape.count, "BNEM"))
        if batch[name].numel():
            yield name, batch[name].reshape(math.prod(batch[name].shape[:rows]), -1), []
    for module in model.modules():
        if isinstance(module, Encoding) and not real & {*module.fields}:
            training = module.training
            on_device = {n: v.to(module.one.device) for n, v in batch.items()}
            numbers = module.eval()(*module.arguments(on_device))
            module.train(training)
            yield module.label, numbers.flatten(0, -2), module.constant
