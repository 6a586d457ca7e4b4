"""Architectures of this package, and of users, in fairseq's registries."""

import dataclasses
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    BaseFairseqModel,
    register_model,
    register_model_architecture,
)

from graphormer_plugin.models import Architecture


def register_with_fairseq(name: str, arch: Architecture) -> None:
    """Make an architecture one of fairseq's: the same network, options and preset.

    fairseq demands classes of its own as bases.
    """
    model, config = arch.model, arch.config
    if name == arch.family:
        made = type(model.__name__, (model, BaseFairseqModel), dict(_named_like(model)))
        options = type(config.__name__, (config, FairseqDataclass), _named_like(config))
        register_model(name, dataclass=dataclasses.dataclass(options))(made)
        return

    def _apply(cfg: Any) -> None:
        for option, value in arch.preset.items():
            setattr(cfg, option, getattr(cfg, option, value))

    register_model_architecture(arch.family, name)(_apply)


def _named_like(cls: type) -> dict[str, str]:
    return {"__module__": cls.__module__, "__doc__": cls.__doc__}
