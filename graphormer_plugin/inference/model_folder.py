"""A folder with the models of an ensemble, and what they predict together."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.inference.extra_columns import Extra
from graphormer_plugin.inference.kernels import shared_features
from graphormer_plugin.inference.loading import BESIDE, load
from graphormer_plugin.inference.predictor import Inputs, Predictor
from graphormer_plugin.inference.values import (
    Prediction,
    SpreadScale,
    combined,
    describe,
)

MODELS_FILE = "models.json"


@dataclass(frozen=True)
class ModelFolder:
    """Content of `MODELS_FILE`.

    Attributes:
        checkpoints: the models.
        weights: how much each of them counts; None where all count the same.
        spread_scale: factor of the spread by the name of the target, see `SpreadScale`;
            1 where none is given.
        spread_floor: its floor; 0 where none is given.
    """

    checkpoints: list[Path]
    weights: list[float] | None = None
    spread_scale: dict[str, float] = field(default_factory=dict)
    spread_floor: dict[str, float] = field(default_factory=dict)

    def scale(self, targets: TargetSchema) -> SpreadScale:
        """Calibration of each output [C]."""
        names = targets.names
        if targets.kind == "multiclass":
            names = names * targets.num_classes
        return SpreadScale(
            np.array([self.spread_scale.get(name, 1.0) for name in names]),
            np.array([self.spread_floor.get(name, 0.0) for name in names]),
        )


def read_folder(folder: str | os.PathLike[str]) -> ModelFolder:
    """Read which models a folder has.

    Raises:
        OSError: it has no `MODELS_FILE`.
        ValueError: the file is damaged, or names something outside of the folder.
    """
    path = Path(folder, MODELS_FILE)
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} is a folder without {MODELS_FILE}; name a checkpoint in it"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        names = content["models"]
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError("no names of models")
        for name in names:
            inside = PurePosixPath(name)
            if inside.is_absolute() or ".." in inside.parts:
                raise ValueError(f"{name} is outside of the folder")
        weights = content.get("weights")
        if weights is not None:
            weights = [float(weight) for weight in weights]
            if len(weights) != len(names):
                raise ValueError(f"{len(weights)} weights of {len(names)} models")
            if not all(0 < weight < float("inf") for weight in weights):
                raise ValueError("a weight is not a positive number")
        scales, floors = (
            {str(name): float(value) for name, value in content.get(key, {}).items()}
            for key in ("spread_scale", "spread_floor")
        )
        if not all(0 < scale < float("inf") for scale in scales.values()):
            raise ValueError("a spread_scale is not a positive number")
        if not all(0 <= floor < float("inf") for floor in floors.values()):
            raise ValueError("a spread_floor is not a number >= 0")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(f"{path} is damaged: {reason}") from None
    paths = [Path(folder, name) for name in names]
    return ModelFolder(paths, weights, scales, floors)


def write_folder(
    folder: str | os.PathLike[str],
    checkpoints: Sequence[str],
    spread_scale: Mapping[str, float] | None = None,
    spread_floor: Mapping[str, float] | None = None,
    weights: Sequence[float] | None = None,
) -> None:
    """Write `MODELS_FILE`.

    Args:
        folder: where it lies.
        checkpoints: paths relative to it.
        spread_scale: see `ModelFolder`.
        spread_floor: the same.
        weights: the same.
    """
    content: dict[str, Any] = {"models": list(checkpoints)}
    if weights and len({*weights}) > 1:
        content["weights"] = list(weights)
    if spread_scale:
        content["spread_scale"] = dict(spread_scale)
    if spread_floor:
        content["spread_floor"] = dict(spread_floor)
    with atomic_write(Path(folder, MODELS_FILE), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


class EnsemblePredictor:
    """Several models that predict together.

    Args:
        members: at least one; they predict the same targets.
        scale: calibration of the spread; None: as it is.
        weights: how much each member counts; None: all the same.

    Attributes:
        targets: what is predicted.

    Raises:
        ValueError: two members predict different things.
    """

    def __init__(
        self,
        members: Sequence[Predictor],
        scale: SpreadScale | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.members = list(members)
        self.targets = self.members[0].targets
        self.scale = scale
        self.weights = weights
        for number, member in enumerate(self.members):
            check_agreement(("member 0", self.members[0]), (f"member {number}", member))

    def __repr__(self) -> str:
        first, count = self.members[0], len(self.members)
        kinds = dict.fromkeys(repr(one).partition("; ")[2][:-1] for one in self.members)
        plural = "s" if count > 1 else ""
        return (
            f"<EnsemblePredictor: {describe(first.targets)}; {count} model{plural} "
            f"({' | '.join(kinds)})>"
        )

    def to(self, device: torch.device | str) -> "EnsemblePredictor":
        """Move the models; returns this object."""
        for member in self.members:
            member.to(device)
        return self

    def predict(
        self, inputs: Inputs, batch_size: int = 128, extra: Extra = None
    ) -> np.ndarray:
        """Mean of the members' predictions; see `Predictor.predict`."""
        return self.estimate(inputs, batch_size, extra=extra).values

    def estimate(
        self,
        inputs: Inputs,
        batch_size: int = 128,
        smiles: Sequence[str] | None = None,
        extra: Extra = None,
    ) -> Prediction:
        """Mean, spread and likeness to the training molecules; see `Predictor.estimate`
        and `combined`."""
        with shared_features():
            found = combined(
                [
                    member.estimate(inputs, batch_size, smiles, extra)
                    for member in self.members
                ],
                self.weights,
            )
        if found.std is None or self.scale is None:
            return found
        return found._replace(std=self.scale(found.std))


def load_any(
    path: str | os.PathLike[str],
    user_data_dir: str | os.PathLike[str] | None = None,
    head: str | os.PathLike[str] | None = BESIDE,
) -> Predictor | EnsemblePredictor:
    """Load a checkpoint, see `load`, or the models of a folder with `MODELS_FILE`.

    Args:
        path: the checkpoint, the folder, or the name of a model that comes with the
            package.
        user_data_dir: folder with modules that register what the models need.
        head: file of a head; ``beside`` takes the one beside each checkpoint if there is
            one, None takes none.

    Raises:
        OSError, ValueError: as `load` and `read_folder`.
    """
    if not Path(path).is_dir():
        return load(path, user_data_dir, head)
    folder = read_folder(path)
    members = [load(file, user_data_dir, head) for file in folder.checkpoints]
    scale = folder.scale(members[0].targets)
    return EnsemblePredictor(members, scale, folder.weights)


def check_agreement(one: tuple[str, Predictor], other: tuple[str, Predictor]) -> None:
    """Raise ValueError unless both models predict the same from the same features.

    Args:
        one: name of a model, for the message, and the model.
        other: the same.
    """
    both = f"{other[0]} and {one[0]}"
    for name in ("names", "unit", "kind", "num_classes", "class_names"):
        values = [getattr(predictor.targets, name) for _, predictor in (other, one)]
        if values[0] != values[1]:
            raise ValueError(
                f"{both} predict different things: {name} {values[0]!r} and "
                f"{values[1]!r}"
            )
    if one[1].extra_columns != other[1].extra_columns:
        raise ValueError(f"{both} read different columns beside the molecules")
    if one[1].featuriser != other[1].featuriser:
        raise ValueError(f"{both} read different features")
