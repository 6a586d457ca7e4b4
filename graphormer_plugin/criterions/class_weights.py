"""Weights of classes in a loss."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

BALANCED = "balanced"
HELP = (
    "weights of the classes in the loss, 0 first, comma-separated, e.g. 1,5; or balanced: "
    "in inverse proportion to the labels of each class in the training split (default: "
    "equal weights)"
)


def weight_table(text: str, task: Any) -> Tensor:
    """Weights of the classes of each target.

    Args:
        text: see `HELP`.
        task: has ``targets``, and the ``store`` whose training split balances them.

    Returns:
        float32 [C, classes].

    Raises:
        ValueError: wrong numbers, or ``balanced`` for classes of nodes.
    """
    targets = task.targets
    classes = 2 if targets.kind == "binary" else targets.num_classes
    if text != BALANCED:
        try:
            weights = [float(part) for part in text.split(",")]
        except ValueError:
            weights = []
        if len(weights) != classes or not all(0 <= w < np.inf for w in weights):
            raise ValueError(
                f"--class-weights {text}: expected {classes} numbers >= 0, or {BALANCED}"
            )
        return torch.tensor([weights]).expand(len(targets.names), -1)
    if targets.level != "graph":
        raise ValueError("--class-weights balanced: classes of nodes take numbers")
    labels = np.asarray(task.store.target[task.store.splits["train"]])
    counts = np.stack([(labels == number).sum(0) for number in range(classes)], axis=1)
    # sklearn's formula; the mean weight of the labels of a target is 1.
    present = (counts > 0).sum(1, keepdims=True)
    weights = counts.sum(1, keepdims=True) / np.maximum(present * counts, 1)
    weights[counts == 0] = 0
    return torch.tensor(weights, dtype=torch.float32)
