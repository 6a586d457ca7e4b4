"""Architectures for ``--arch``, which importing this package registers."""

import sys

from graphormer_plugin.components import import_modules
from graphormer_plugin.models._base import (
    EncoderConfig,
    GraphModel,
    ModelTask,
    PairConfig,
    TransformerConfig,
)
from graphormer_plugin.models._build import (
    build_model,
    model_config,
    model_from_options,
)
from graphormer_plugin.models._graph_features import (
    FEATURES_WEIGHT,
    join_graph_features,
)
from graphormer_plugin.models._layerwise import apply_layerwise_options, weight_layers
from graphormer_plugin.models._registry import (
    ARCHITECTURES,
    Architecture,
    for_each_architecture,
    list_architectures,
    register_model,
)

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "FEATURES_WEIGHT",
    "EncoderConfig",
    "GraphModel",
    "ModelTask",
    "PairConfig",
    "TransformerConfig",
    "apply_layerwise_options",
    "build_model",
    "for_each_architecture",
    "join_graph_features",
    "list_architectures",
    "weight_layers",
    "model_config",
    "model_from_options",
    "register_model",
]

import_modules(sys.modules[__name__])
