"""Build a registered architecture from Python, without fairseq."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models._base import EncoderConfig, GraphModel, ModelTask
from graphormer_plugin.models._graph_features import join_graph_features
from graphormer_plugin.models._layerwise import apply_layerwise_options
from graphormer_plugin.models._registry import ARCHITECTURES


def model_config(arch: str, **options: Any) -> Any:
    """Config of a registered architecture: its preset with other values of ``options``."""
    if arch not in ARCHITECTURES:
        raise ValueError(
            f"unknown architecture {arch!r}; see python -m graphormer_plugin"
        )
    _, _, config, preset = ARCHITECTURES[arch]
    names = {entry.name for entry in dataclasses.fields(config)}
    unknown = sorted(options.keys() - names)
    if unknown:
        raise ValueError(
            f"{arch} has no option {unknown[0]!r}, expected {sorted(names)}"
        )
    return config(**{**preset, **options})


def model_from_options(
    options: Mapping[str, Any], schema: FeatureSchema, targets: TargetSchema
) -> GraphModel:
    """The model of a checkpoint's options, with random weights. The options have the
    architecture under ``_name``; unknown options have no effect."""
    _, model, config, _ = ARCHITECTURES[options["_name"]]
    names = {entry.name for entry in dataclasses.fields(config)} & options.keys()
    config = config(**{name: options[name] for name in names})
    return _built(model, config, ModelTask(schema, targets))


def build_model(
    arch: str,
    schema: FeatureSchema,
    targets: TargetSchema,
    log_degree: float | None = None,
    **options: Any,
) -> GraphModel:
    """Build a registered architecture from Python, without fairseq's command line.

    Args:
        schema: vocabularies of nodes and bonds, e.g. `GraphStore.schema`.
        targets: names, kind and scale, e.g. `GraphStore.targets`.
        log_degree: see `ModelTask`.
        **options: values of the config that differ from the preset.

    Raises:
        ValueError: unknown architecture or option, or options that do not fit.
    """
    config = model_config(arch, **options)
    task = ModelTask(schema, targets, log_degree)
    model = _built(ARCHITECTURES[arch].model, config, task)
    apply_layerwise_options(model, config)
    return model


def _built(
    model: type[GraphModel], config: EncoderConfig, task: ModelTask
) -> GraphModel:
    task.targets.check_for_network()
    built = model.build_model(config, task)
    join_graph_features(built, task.schema, task.targets)
    built.schema = task.schema
    built.targets = task.targets
    return built
