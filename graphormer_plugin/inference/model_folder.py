"""Models that predict together: checkpoints, or a folder with ``models.json``."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.files import atomic_write, leads_out, read_text
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.head import HEAD_FILE
from graphormer_plugin.heads.prediction import Interval, SpreadScale
from graphormer_plugin.inference.checkpoint import (
    checkpoint_path,
    invalid_checkpoint_errors,
)

MODELS_FILE = "models.json"
# Of graphormer-train: the table in its folder, and the split beside the models of a run.
MOLECULES_FILE, SMILES_COLUMN, SPLIT_FILE = "molecules.csv", "smiles", "split.json"


@dataclass(frozen=True)
class ModelFolder:
    """Models that predict together: content of `MODELS_FILE`, or checkpoints alone.

    Attributes:
        spread_scale: factor of the spread by the name of the target, see `SpreadScale`;
            1 where none is given.
        log_targets: targets of the models that are decadic logarithms, see `from_log`.
        coverage: of conformal intervals, see `Interval`; 0 without.
        factors: their factors by the name of the target.
        missing_labels: words of ``--missing-labels`` in training.
    """

    checkpoints: list[Path]
    spread_scale: dict[str, float] = field(default_factory=dict)
    spread_floor: dict[str, float] = field(default_factory=dict)
    log_targets: list[str] = field(default_factory=list)
    coverage: float = 0.0
    factors: dict[str, float] = field(default_factory=dict)
    missing_labels: list[str] = field(default_factory=list)

    def scale(self, targets: TargetSchema) -> SpreadScale | None:
        """Calibration of each output [C]; None where there is none."""
        if not self.spread_scale and not self.spread_floor:
            return None
        names = targets.names
        if targets.kind == "multiclass":
            names = names * targets.num_classes
        return SpreadScale(
            np.array([self.spread_scale.get(name, 1.0) for name in names]),
            np.array([self.spread_floor.get(name, 0.0) for name in names]),
        )

    def interval(self, targets: TargetSchema) -> Interval | None:
        """Conformal intervals of the targets; None where there are none."""
        if not self.factors:
            return None
        if lacking := [name for name in targets.names if name not in self.factors]:
            raise ValueError(f"{MODELS_FILE} has no interval of {lacking}")
        factors = [self.factors[name] for name in targets.names]
        return Interval(self.coverage, np.array(factors))


def read_folder(folder: str | os.PathLike[str]) -> ModelFolder:
    """Read the models of a folder."""
    path = Path(folder, MODELS_FILE)
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} is a folder without {MODELS_FILE}; name a checkpoint in it"
        )
    with invalid_checkpoint_errors(path):
        content = json.loads(read_text(path))
        names, heads = content["models"], content.get("heads", [])
        if not names or any(map(leads_out, [*names, *heads])):
            raise ValueError(f"models {names}, expected names inside of the folder")
        scales, floors = (
            {str(name): float(value) for name, value in content.get(key, {}).items()}
            for key in ("spread_scale", "spread_floor")
        )
        logs = [str(name) for name in content.get("log_targets", ())]
        missing = [str(word) for word in content.get("missing_labels", ())]
        coverage = float(content.get("coverage", 0))
        factors = {str(n): float(x) for n, x in content.get("interval", {}).items()}
        if not 0 <= coverage < 1 or not 0 <= sum(factors.values()) < inf:
            raise ValueError(f"coverage {coverage} or interval {factors} is no number")
        positive, floor = [1, *scales.values()], [0, *floors.values()]
        if min(positive) <= 0 or min(floor) < 0 or not sum([*positive, *floor]) < inf:
            raise ValueError(
                "a scale is not above 0, a floor is below 0, or a number is infinite"
            )
    for name in heads:
        if not Path(folder, name).exists():
            raise FileNotFoundError(
                f"{Path(folder, name)}, which {path} names, is missing"
            )
    paths = [Path(folder, name) for name in names]
    return ModelFolder(paths, scales, floors, logs, coverage, factors, missing)


def models_named(names: Sequence[str | os.PathLike[str]]) -> ModelFolder:
    """Models of a command line: checkpoints, models that come with the package, or the
    models of a folder."""
    paths = [Path(checkpoint_path(name)) for name in names]
    if not any(path.is_dir() for path in paths):
        return ModelFolder(paths)
    if len(paths) > 1:
        raise ValueError("a folder is an ensemble; name no other model beside it")
    return read_folder(paths[0])


def write_folder(
    folder: str | os.PathLike[str],
    checkpoints: Sequence[str],
    spread_scale: Mapping[str, float] | None = None,
    spread_floor: Mapping[str, float] | None = None,
    log_targets: Sequence[str] = (),
    coverage: float = 0.0,
    factors: Mapping[str, float] | None = None,
    missing_labels: Sequence[str] = (),
) -> None:
    """Write `MODELS_FILE` of a `ModelFolder`, with checkpoints relative to the folder, and
    the names of the heads that lie beside them."""
    heads = dict.fromkeys(str(Path(one).with_name(HEAD_FILE)) for one in checkpoints)
    content: dict[str, Any] = {
        "models": checkpoints,
        "heads": [name for name in heads if Path(folder, name).exists()],
        "spread_scale": spread_scale,
        "spread_floor": spread_floor,
        "log_targets": log_targets,
        "coverage": coverage,
        "interval": factors,
        "missing_labels": missing_labels,
    }
    content = {name: value for name, value in content.items() if value}
    with atomic_write(Path(folder, MODELS_FILE), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
