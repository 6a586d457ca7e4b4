"""Model outputs as values in the targets' unit or probabilities, and as text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from graphormer_plugin.data.schema import TargetSchema


class Prediction(NamedTuple):
    """What a model, or several, say about molecules.

    Attributes:
        values: [q, C], in the targets' unit, or probabilities.
        std: [q, C] standard deviations; with a head that of a measured label, for classes
            that of the probability. None for a model without.
        in_domain: [q], see `Domain`; None where the training molecules are not known.
    """

    values: NDArray[np.float64]
    std: NDArray[np.float64] | None = None
    in_domain: NDArray[np.float64] | None = None


class SpreadScale(NamedTuple):
    """Calibration of a spread: sqrt((factor * std)^2 + floor^2).

    Attributes:
        factor: [C].
        floor: [C], in the targets' unit.
    """

    factor: NDArray[np.float64]
    floor: NDArray[np.float64]

    def __call__(self, std: NDArray[np.float64]) -> NDArray[np.float64]:
        """Calibrated standard deviations [q, C]."""
        return np.hypot(self.factor * std, self.floor)


def combined(members: Sequence[Prediction]) -> Prediction:
    """Prediction of an ensemble.

    The variance is that of the members' values (with n - 1) plus the mean of their own
    variances. The score of the domain is the mean over the members that have one.
    """
    values = np.stack([member.values for member in members])
    own = [member.std**2 for member in members if member.std is not None]
    scores = [member.in_domain for member in members if member.in_domain is not None]
    std = None
    if own or len(members) > 1:
        variance = values.var(0, ddof=1) if len(members) > 1 else 0.0
        std = np.sqrt(variance + sum(own, np.zeros_like(values[0])) / len(members))
    score = np.mean(scores, 0) if scores else None
    return Prediction(values.mean(0), std, score)


def values_of(output: Tensor | ArrayLike, targets: TargetSchema) -> NDArray[np.float64]:
    """Values that a model's output stands for.

    Args:
        output: [..., C], as the model returns it.
        targets: the targets that the model was trained on.

    Returns:
        [..., C], in the targets' unit for regression, else probabilities (per class for
        a multiclass target).
    """
    output = torch.as_tensor(output).double()
    if targets.kind == "binary":
        output = output.sigmoid()
    elif targets.kind == "multiclass":
        output = output.softmax(-1)
    else:
        output = targets.restore(output)
    return output.cpu().numpy()


def describe(targets: TargetSchema) -> str:
    """Names and unit of targets, for people.

    >>> describe(TargetSchema(["gap"], "eV"))
    'gap (eV)'
    """
    meanings = {"binary": "probability", "multiclass": "class"}
    meaning = meanings.get(targets.kind, targets.unit or "no unit")
    listed = ", ".join(targets.names[:3])
    if len(targets.names) > 3:
        listed += f" and {len(targets.names) - 3} more"
    return f"{listed} ({meaning})"


def format_value(value: float) -> str:
    """A predicted value as it stands in a file, with the 7 digits of a float32.

    >>> format_value(1 / 3), format_value(2.0)
    ('0.3333333', '2')
    """
    return f"{value:.7g}"
