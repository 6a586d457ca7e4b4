"""Architectures of this package, and of users, in fairseq's registries."""

import dataclasses

from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model

from graphormer_plugin.models import Architecture


def register_with_fairseq(name: str, arch: Architecture) -> None:
    """Make an architecture one of fairseq's: the same network and options.

    fairseq demands classes of its own as bases. A preset has a config whose defaults are its
    values: ``fairseq-hydra-train`` reads configs, and none of fairseq's functions of presets.
    """
    model, config = arch.model, arch.config
    preset = {
        entry.name: dataclasses.field(
            default=arch.preset[entry.name], metadata=entry.metadata
        )
        for entry in dataclasses.fields(config)
        if entry.name in arch.preset
    }
    types = {entry.name: entry.type for entry in dataclasses.fields(config)}
    named = _named_like(config) | {
        "__annotations__": {key: types[key] for key in preset}
    }
    options = type(config.__name__, (config, FairseqDataclass), named | preset)
    made = type(model.__name__, (model, BaseFairseqModel), dict(_named_like(model)))
    register_model(name, dataclass=dataclasses.dataclass(options))(made)


def _named_like(cls: type) -> dict[str, str]:
    return {"__module__": cls.__module__, "__doc__": cls.__doc__}
