"""Architectures of this package, and of users, in fairseq's registries."""

import argparse
import dataclasses
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import BaseFairseqModel, register_model

from graphormer_plugin.models import Architecture


def register_with_fairseq(name: str, arch: Architecture) -> None:
    """Register an architecture with fairseq: the same network and options.

    fairseq demands classes of its own as bases. A preset has a config whose defaults are its
    values: ``fairseq-hydra-train`` reads configs, and none of fairseq's functions of presets.
    The flags have the defaults of the family's config: a default of True would make a flag
    that turns the option off.
    """
    model = arch.model
    config = arch.config
    named = _named_like(config)
    bases = (config, FairseqDataclass)
    family = dataclasses.dataclass(type(config.__name__, bases, dict(named)))
    preset = [e for e in dataclasses.fields(config) if e.name in arch.preset]
    named |= {"__annotations__": {entry.name: entry.type for entry in preset}}
    for entry in preset:
        value = arch.preset[entry.name]
        metadata = entry.metadata
        named[entry.name] = dataclasses.field(default=value, metadata=metadata)
    options = dataclasses.dataclass(type(config.__name__, bases, named))

    def _add_args(cls: type, parser: argparse.ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, family(), delete_default=True)

    named = _named_like(model) | {"add_args": classmethod(_add_args)}
    made = type(model.__name__, (model, BaseFairseqModel), named)
    register_model(name, dataclass=options)(made)


def _named_like(cls: type) -> dict[str, Any]:
    return {"__module__": cls.__module__, "__doc__": cls.__doc__}
