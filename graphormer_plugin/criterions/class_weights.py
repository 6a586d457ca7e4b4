"""Weights of classes in a loss, from numbers or from the labels of the training split."""

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch
from fairseq.dataclass import FairseqDataclass
from numpy.typing import NDArray
from torch import Tensor

from graphormer_plugin.choices import option
from graphormer_plugin.data.tables.options import CLASS_WEIGHTS
from graphormer_plugin.data.targets import TargetSchema

BALANCED = "balanced"


@dataclass
class ClassWeightsConfig(FairseqDataclass):
    """Options of a loss on classes."""

    class_weights: Optional[str] = option(None, CLASS_WEIGHTS)


def weight_table(text: str, task: Any) -> Tensor:
    """Weights of the classes of each target, float32 [C, classes], from the option
    `CLASS_WEIGHTS`; a task has ``targets`` and ``balanced_class_weights``."""
    if text == BALANCED:
        weights = task.balanced_class_weights()
    else:
        weights = class_weights(text, task.targets, np.empty(0))
    return torch.tensor(weights, dtype=torch.float32)


def class_weights(text: str, targets: TargetSchema, labels: NDArray) -> NDArray:
    """Weights of the classes of each target, float64 [T, classes]. Only ``balanced`` reads
    the labels of the training [n, T], NaN where missing."""
    listed_weights = given_weights(text, targets)
    if listed_weights is not None:
        return np.tile(listed_weights, (len(targets.names), 1))
    classes = range(count_classes(targets))
    counts = np.stack([(labels == number).sum(0) for number in classes], axis=1)
    # sklearn's formula: the mean weight of the labels of a target is 1.
    present = (counts > 0).sum(1, keepdims=True)
    weights = counts.sum(1, keepdims=True) / np.maximum(present * counts, 1)
    weights[counts == 0] = 0
    return weights


def given_weights(text: str, targets: TargetSchema) -> list[float] | None:
    """The weights of the classes that a text lists; None for ``balanced``."""
    if text == BALANCED:
        return None
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    classes = count_classes(targets)
    if len(weights) != classes or not all(0 <= w < np.inf for w in weights):
        raise ValueError(
            f"--class-weights {text}: expected {classes} numbers >= 0, or {BALANCED}"
        )
    return weights


def count_classes(targets: TargetSchema) -> int:
    """Number of classes of each target."""
    return max(len(target.class_labels) for target in targets.targets)
