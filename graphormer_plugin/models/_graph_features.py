"""Numbers of each graph, such as descriptors, beside its vector in the output layer."""

import dataclasses
from typing import Any

from torch import Tensor, nn

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models._base import GraphModel

FIELD = "graph_features"
FEATURES_WEIGHT = "joined.weight"  # among the weights


def join_graph_features(
    model: GraphModel, schema: FeatureSchema, targets: TargetSchema
) -> None:
    """Let a model read the numbers of graphs that the schema names, if there are any.

    A linear map of them, which starts at zero, is added to the output. This equals joining
    them to the input of the last linear map of the head. Other forward hooks of the model,
    such as `--clamp-max`, get the sum.
    """
    width = len(schema.graph_features)
    if not width:
        return
    model.joined = nn.Linear(width, targets.num_outputs, bias=False)
    nn.init.zeros_(model.joined.weight)
    spec = model.batch_spec
    model.batch_spec = dataclasses.replace(spec, fields=spec.fields | {FIELD})
    model.register_forward_hook(_add, prepend=True, with_kwargs=True)


def _add(
    model: GraphModel,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    output: Tensor,
) -> Tensor:
    batch = arguments[0] if arguments else options["batch"]
    joined = model.joined(batch[FIELD].to(model.joined.weight.dtype))
    return output + (joined if model.level is Level.GRAPH else joined.unsqueeze(1))
