"""Architectures. Every file here that does not start with _ registers its own."""

import importlib
import pkgutil

from ._base import EncoderConfig, GraphModel, TransformerConfig, set_defaults
from ._build import build_model, model_config
from ._layerwise import apply_layerwise_options, count_layers, layers_of_weights

__all__ = [
    "EncoderConfig",
    "GraphModel",
    "TransformerConfig",
    "apply_layerwise_options",
    "build_model",
    "count_layers",
    "layers_of_weights",
    "model_config",
    "set_defaults",
]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
