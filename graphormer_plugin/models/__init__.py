"""Architectures. Every file here that does not start with _ registers its own."""

import importlib
import pkgutil

from ._base import GraphModel, TransformerConfig, build_model, model_config
from ._finetune import (
    Pretrained,
    preset_options,
    read_pretrained,
    setting,
    settle_options,
    translate,
)
from ._layers import check_optimizer, scaled_learning_rates, set_up_layers

__all__ = [
    "GraphModel",
    "Pretrained",
    "TransformerConfig",
    "build_model",
    "check_optimizer",
    "model_config",
    "preset_options",
    "read_pretrained",
    "scaled_learning_rates",
    "set_up_layers",
    "setting",
    "settle_options",
    "translate",
]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
