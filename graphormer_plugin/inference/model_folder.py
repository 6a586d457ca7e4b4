"""Models that predict together: checkpoints, or a folder with ``models.json``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.files import PathName, file_sha256, read_text, write_text
from graphormer_plugin.data.graphs.start_molecules import seen_beside
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.gp import HEAD_FILE
from graphormer_plugin.estimators.prediction import Interval, SpreadScale
from graphormer_plugin.inference.checkpoint import (
    checkpoint_path,
    invalid_checkpoint_errors,
    packaged_models,
)

MODELS_FILE = "models.json"
START = "start.pt"  # in a folder, `seen_beside` it alone
# Files of graphormer-train: its table, and the split beside the models of a run.
MOLECULES_FILE = "molecules.csv"
SMILES_COLUMN = "smiles"
SPLIT_FILE = "split.json"


@dataclass(frozen=True)
class ModelFolder:
    """Models that predict together: content of `MODELS_FILE`, or checkpoints alone.

    Attributes:
        spread_scale: factor of the spread by the name of the target, by default 1, see
            `SpreadScale`.
        spread_floor: its floor, by default 0.
        log_targets: targets of the models that are on a `Scale`, which their names begin with.
        cut_off: see `Target`, by the name of the target; by default 0.5.
        coverage: share of labels in conformal intervals, see `Interval`; 0 without.
        interval: factors of these intervals by the name of the target.
        sets: see `Interval.limits`.
        calibration: by the name of the target, the molecules that the intervals come from:
            predictions of each output, low and high ends of the labels, in their unit.
        missing_labels: words of ``--missing-labels`` in training.
        source: file of that content, for messages.
        seen: `seen_beside` the start.
    """

    checkpoints: list[Path]
    spread_scale: dict[str, float] = field(default_factory=dict)
    spread_floor: dict[str, float] = field(default_factory=dict)
    log_targets: list[str] = field(default_factory=list)
    cut_off: dict[str, float] = field(default_factory=dict)
    coverage: float = 0.0
    interval: dict[str, float] = field(default_factory=dict)
    sets: dict[str, list[float]] = field(default_factory=dict)
    calibration: dict[str, Sequence[Any]] = field(default_factory=dict)
    missing_labels: list[str] = field(default_factory=list)
    source: str = MODELS_FILE
    seen: Path | None = None

    def __post_init__(self) -> None:
        factors = np.array([*self.spread_scale.values(), *self.interval.values()])
        floors = np.array([*self.spread_floor.values()])
        if not ((factors > 0) & (factors < np.inf)).all():
            raise ValueError(
                f"factors {factors.tolist()}, expected finite ones above 0"
            )
        if not ((floors >= 0) & (floors < np.inf)).all():
            raise ValueError(
                f"floors {floors.tolist()}, expected finite ones of 0 or more"
            )
        if not 0 <= self.coverage < 1:
            raise ValueError(f"coverage {self.coverage}, expected a share below 1")

    def scale(self, targets: TargetSchema) -> SpreadScale | None:
        """Calibration of each output [C]; None where there is none."""
        if not self.spread_scale and not self.spread_floor:
            return None
        names = [targets.names[target] for target in targets.target_of_output]
        return SpreadScale(
            np.array([self.spread_scale.get(name, 1.0) for name in names]),
            np.array([self.spread_floor.get(name, 0.0) for name in names]),
        )

    def intervals(self, targets: TargetSchema) -> Interval | None:
        """Conformal intervals of the targets; None where there are none."""
        if not self.coverage:
            return None
        names = np.array(targets.names)[targets.target_of_output]
        outputs = zip(names, targets.is_number_of_output, strict=True)
        factors = [self.interval[name] if number else 0.0 for name, number in outputs]
        return Interval(self.coverage, np.array(factors), self.sets)


def read_folder(folder: PathName) -> ModelFolder:
    """The models of a folder, none of whose heads is missing or another's."""
    path = Path(folder, MODELS_FILE)
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} is a folder without {MODELS_FILE}; name a checkpoint in it"
        )
    with invalid_checkpoint_errors(path):
        content = json.loads(read_text(path))
        names = content.pop("models")
        heads = content.pop("heads", {})
        for name in [*names, *heads]:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"{name!r}, expected a name inside the folder")
        digests = {Path(folder, name): digest for name, digest in heads.items()}
        checkpoints = [Path(folder, name) for name in names]
        content["seen"] = seen_beside(Path(folder, START))
        models = ModelFolder(checkpoints, source=str(path), **content)
    for head, digest in digests.items():
        if not head.exists():
            raise FileNotFoundError(f"{head}, which {path} names, is missing")
        if file_sha256(head) != digest:
            raise ValueError(
                f"{head} is not the head that {path} belongs to: perhaps of another "
                "table; copy both from one folder, or train again"
            )
    return models


def models_named(names: Sequence[PathName]) -> ModelFolder:
    """Models of a command line: checkpoints, models that come with the package, or the
    models of a folder."""
    paths = [Path(checkpoint_path(name)) for name in names]
    if len(paths) > 1 and any(path.is_dir() for path in paths):
        raise ValueError("a folder is an ensemble; name no other model beside it")
    if paths[0].is_dir():
        models = read_folder(paths[0])
    else:
        models = ModelFolder(paths, seen=seen_beside(paths[0]))
    for path in models.checkpoints:
        if not path.exists():
            known = f"models that come along: {listed(packaged_models())}"
            raise FileNotFoundError(f"{path}: no such file or folder; {known}")
    return models


def write_folder(folder: PathName, checkpoints: Sequence[str], **content: Any) -> None:
    """Write `MODELS_FILE`: checkpoints relative to the folder, the heads that lie beside
    them with their digests, and further fields of a `ModelFolder`."""
    heads = {}
    for checkpoint in checkpoints:
        name = str(Path(checkpoint).with_name(HEAD_FILE))
        if name not in heads and Path(folder, name).exists():
            heads[name] = file_sha256(Path(folder, name))
    content = {"models": checkpoints, "heads": heads, **content}
    content = {name: value for name, value in content.items() if value}
    write_text(Path(folder, MODELS_FILE), json.dumps(content, indent=1) + "\n")
