"""Predicted classes by their names."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.inference.values import format_value


class ClassWords:
    """Cells of a row of predictions, with words where the targets' classes have names.

    Args:
        targets: what the model predicts.
        step: columns from the probability of one binary target to that of the next.

    Attributes:
        names: columns behind the values, ``<target>_class`` for a binary target.
    """

    def __init__(self, targets: TargetSchema, step: int = 1) -> None:
        self.multiclass = targets.kind == "multiclass"
        self.classes = targets.class_names
        self.places: dict[int, list[str]] = {}  # of probabilities, and their classes
        self.names: list[str] = []
        if targets.kind != "binary":
            return
        for number, name in enumerate(targets.names):
            if targets.classes_of(number):
                self.places[number * step] = targets.classes_of(number)
                self.names.append(f"{name}_class")

    def __call__(self, values: Sequence[float] | np.ndarray) -> list[str]:
        """Cells of the values, the first of which is the class of a multiclass target,
        then those of `names`."""
        cells = [format_value(value) for value in values]
        if self.multiclass and self.classes:
            cells[0] = self.classes[0][int(values[0])]
        words = [
            names[int(values[place] > 0.5)] for place, names in self.places.items()
        ]
        return cells + words


def class_word(targets: TargetSchema, target: int, label: float) -> str:
    """A label as text: the name or number of its class, or its number in full."""
    if targets.kind == "regression":
        return repr(label)
    words = targets.classes_of(target)
    return words[int(label)] if words else str(int(label))


def class_labels(targets: TargetSchema) -> list[str]:
    """Names of the classes of a multiclass target, else their numbers."""
    return targets.classes_of(0) or [str(n) for n in range(targets.num_classes)]


def label_cells(target: ArrayLike, targets: TargetSchema) -> list[str]:
    """Cells of the labels of one row; missing ones are empty.

    Args:
        target: [C] with NaN, or one class of a node, -1 where missing.
    """
    labels = np.asarray(target)
    missing = np.isnan(labels) if labels.dtype.kind == "f" else labels < 0
    cells = []
    for number, (label, gone) in enumerate(zip(labels, missing, strict=True)):
        words = targets.classes_of(number)
        text = words[int(label)] if words and not gone else f"{label:.8g}"
        cells.append("" if gone else text)  # data, more exact than a float32
    return cells
