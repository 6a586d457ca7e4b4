"""Model outputs as values in the targets' unit or probabilities, and as text."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from graphormer_plugin.data.schema import TargetSchema


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


def format_value(value: float) -> str:
    """A predicted value as it stands in a file, with the 7 digits of a float32.

    >>> format_value(1 / 3), format_value(2.0)
    ('0.3333333', '2')
    """
    return f"{value:.7g}"
