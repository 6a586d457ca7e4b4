"""Architectures and their presets by name, without fairseq."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from graphormer_plugin.components import matching
from graphormer_plugin.models._base import EncoderConfig, GraphModel


class Architecture(NamedTuple):
    """A name for ``--arch``.

    Attributes:
        family: name of the model of which this is a preset, or its own name.
        preset: values of options that are not the defaults of ``config``.
    """

    family: str
    model: type[GraphModel]
    config: type[EncoderConfig]
    preset: Mapping[str, Any]

    def options(self) -> dict[str, Any]:
        """Values of all options."""
        return {**vars(self.config()), **self.preset}


ARCHITECTURES: dict[str, Architecture] = {}
_listeners: list[Callable[[str, Architecture], None]] = []


def register_model(
    name: str, config: type[EncoderConfig], **presets: Mapping[str, Any]
) -> Callable[[type[GraphModel]], type[GraphModel]]:
    """Decorator of a `GraphModel`: makes it an architecture for commands and Python.

    Args:
        name: name for ``--arch`` with the defaults of the config. A name that is taken
            keeps its model, as in fairseq.
        **presets: further names, with the values that differ from the defaults.
    """

    def _register(model: type[GraphModel]) -> type[GraphModel]:
        if name not in ARCHITECTURES:
            for arch, preset in {name: {}, **presets}.items():
                made = Architecture(name, model, config, preset)
                ARCHITECTURES[arch] = made
                for listener in _listeners:
                    listener(arch, made)
        return model

    return _register


def list_architectures(*patterns: str) -> list[str]:
    """Names for ``--arch`` that match one of some patterns, e.g. ``grpe_*``; all without."""
    return matching(ARCHITECTURES, patterns)


def for_each_architecture(listener: Callable[[str, Architecture], None]) -> None:
    """Call a function with every architecture, also with those that register later."""
    for arch, made in ARCHITECTURES.items():
        listener(arch, made)
    _listeners.append(listener)
