"""A checkpoint as what another training starts from."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.checkpoint import Progress, read_checkpoint

COMPONENTS = ("optimizer", "lr_scheduler", "criterion")  # checkpoints have their names


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint to start from.

    Attributes:
        options: options of its model, with the architecture under ``_name``; may be empty.
        weights: its model's state dict; None if fairseq loads the weights.
        components: names of its optimiser, schedule and loss.
    """

    path: str
    schema: FeatureSchema
    targets: TargetSchema
    options: Mapping[str, Any]
    weights: dict[str, Tensor] | None = None
    progress: Progress | None = None
    components: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read_pretrained(path: PathName) -> Pretrained:
    """Read a checkpoint of this package; the weights stay on disk until they are used."""
    checkpoint = read_checkpoint(path)
    cfg = checkpoint.state["cfg"]
    components = {name: (cfg.get(name) or {}).get("_name") for name in COMPONENTS}
    return Pretrained(
        os.fspath(path),
        checkpoint.schema,
        checkpoint.targets,
        cfg["model"],
        checkpoint.weights,
        checkpoint.progress,
        components,
    )
