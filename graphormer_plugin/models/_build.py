"""Build a registered architecture from Python, without fairseq's command line."""

import dataclasses
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)

from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.models._base import GraphModel, ModelTask
from graphormer_plugin.models._graph_features import join_graph_features
from graphormer_plugin.models._layerwise import apply_layerwise_options


def model_config(arch: str, **options: Any) -> Any:
    """Config of a registered architecture: its preset, and options that differ from it.

    Args:
        arch: name for `--arch`, e.g. `grpe_small`.
        **options: fields of the architecture's config.

    Raises:
        ValueError: unknown architecture or option.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        raise ValueError(
            f"unknown architecture {arch!r}; see python -m graphormer_plugin"
        )
    config_class = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]]
    known = {entry.name for entry in dataclasses.fields(config_class)}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise ValueError(
            f"{arch} has no option {unknown[0]!r}, expected {sorted(known)}"
        )
    preset = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](preset)
    return config_class(**vars(preset))


def missing_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are newer than a checkpoint, with the values of its time.

    Args:
        options: of the checkpoint's model, with the architecture under ``_name``.
    """
    arch = options.get("_name")
    model = ARCH_MODEL_NAME_REGISTRY.get(arch, arch)
    if not issubclass(MODEL_REGISTRY.get(model, object), GraphModel):
        return {}
    default = MODEL_DATACLASS_REGISTRY[model]()
    before = MODEL_REGISTRY[model].options_before
    return {
        entry.name: before.get(entry.name, getattr(default, entry.name))
        for entry in dataclasses.fields(default)
        if entry.name not in options
    }


def build_model(
    arch: str, schema: FeatureSchema, targets: TargetSchema, **options: Any
) -> GraphModel:
    """Builds a registered architecture from Python, without fairseq's command line.

    Args:
        arch: name for `--arch`, e.g. `grpe_small`.
        schema: vocabularies of nodes and bonds, e.g. `GraphStore.schema`.
        targets: names, kind and scale, e.g. `GraphStore.targets`.
        **options: fields of the architecture's config that differ from the preset.

    Raises:
        ValueError: unknown architecture or option, or options that do not fit.
    """
    config = model_config(arch, **options)
    model = ARCH_MODEL_REGISTRY[arch].build_model(config, ModelTask(schema, targets))
    join_graph_features(model, schema, targets)
    apply_layerwise_options(model, config)
    return model
