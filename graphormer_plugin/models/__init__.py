"""Architectures. Every file here that does not start with _ registers its own."""

import importlib
import pkgutil

from ._base import GraphModel, TransformerConfig, build_model, model_config

__all__ = ["GraphModel", "TransformerConfig", "build_model", "model_config"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
