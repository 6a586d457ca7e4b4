"""Architectures for ``--arch``, which importing this package registers."""

import sys

from graphormer_plugin.components import import_modules
from graphormer_plugin.models._base import (
    EncoderConfig,
    GraphModel,
    ModelTask,
    PairConfig,
    TransformerConfig,
    set_defaults,
)
from graphormer_plugin.models._build import build_model, missing_options, model_config
from graphormer_plugin.models._graph_features import JOINED, join_graph_features
from graphormer_plugin.models._layerwise import (
    apply_layerwise_options,
    layers_of_weights,
)

__all__ = [
    "JOINED",
    "EncoderConfig",
    "GraphModel",
    "ModelTask",
    "PairConfig",
    "TransformerConfig",
    "apply_layerwise_options",
    "build_model",
    "join_graph_features",
    "layers_of_weights",
    "missing_options",
    "model_config",
    "set_defaults",
]

import_modules(sys.modules[__name__])
