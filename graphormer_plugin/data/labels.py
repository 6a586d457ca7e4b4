"""Labels of a store and their weights: number format, and the targets that they make."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphormer_plugin.data.schema import TargetSchema, target_statistics


def as_float32(values: np.ndarray) -> np.ndarray:
    """float32 [G, C]; ValueError where a label does not fit or is infinite."""
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"target has shape {list(values.shape)}, expected [G, C]")
    with np.errstate(over="ignore"):
        result = values.astype(np.float32)
    infinite = np.isinf(result)
    if infinite.any():
        graph, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"target {column} of graph {graph} is {values[graph, column]}, expected a "
            "number that fits float32"
        )
    return result


def checked_weights(values: Any, count: int) -> np.ndarray:
    """Weights of graphs or rows in the loss, float32.

    Args:
        values: Numbers [count].
        count: Of graphs or rows.

    Raises:
        ValueError: They are not as many numbers, finite and at least 0.
    """
    with np.errstate(over="ignore"):
        weights = np.asarray(values, np.float32)
    if weights.shape != (count,):
        raise ValueError(
            f"weights have shape {list(weights.shape)}, expected [{count}]"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        raise ValueError(
            f"weight {place} is {weights[place]}, expected a finite number, 0 or more"
        )
    return weights


def describe_targets(
    values: np.ndarray | None,
    names: list[str],
    unit: str,
    kind: str,
    num_classes: int,
    node_offset: np.ndarray,
    splits: Mapping[str, np.ndarray],
) -> tuple[TargetSchema, int]:
    """The targets of a store, with the statistics of its training split.

    Args:
        values: labels of graphs, float32 [G, C] with NaN where missing, or of nodes,
            float32 or int [sum N]; None without labels.
        names: one per target column.
        unit: of a regression target.
        kind: ``regression``, ``binary`` or ``multiclass``.
        num_classes: of a multiclass target; 0 takes the largest label + 1.
        node_offset: int64 [G + 1], first node of each graph.
        splits: graph ids by split name; all graphs count where there is no ``train``.

    Returns:
        The targets, and the number of missing labels.

    Raises:
        ValueError: labels of the wrong shape, kind or range.
    """
    if values is None:
        if names:
            raise ValueError(f"no labels are given for target {names[0]!r}")
        return TargetSchema([], unit, kind, "graph", num_classes), 0
    num_graphs, num_nodes = len(node_offset) - 1, int(node_offset[-1])
    train = splits.get("train", np.arange(num_graphs))
    if values.ndim == 1:
        if len(values) != num_nodes:
            raise ValueError(
                f"node labels are given for {len(values)} of {num_nodes} nodes"
            )
        chosen = np.zeros(num_graphs, dtype=bool)
        chosen[train] = True
        training = np.repeat(chosen, np.diff(node_offset))
        return _targets_of_nodes(values, names, unit, kind, num_classes, training)
    if len(values) != num_graphs:
        raise ValueError(f"targets are given for {len(values)} of {num_graphs} graphs")
    if len(names) != values.shape[1]:
        raise ValueError(
            f"{len(names)} target names {names}, but {values.shape[1]} target columns"
        )
    mean: list[float] = []
    std: list[float] = []
    if kind == "regression":
        mean, std = target_statistics(values, train)
    else:
        found = _check_classes(values, 2 if kind == "binary" else num_classes)
        num_classes = found if kind == "multiclass" else 0
    schema = TargetSchema(names, unit, kind, "graph", num_classes, mean, std)
    return schema, int(np.isnan(values).sum())


def _targets_of_nodes(
    values: np.ndarray,
    names: list[str],
    unit: str,
    kind: str,
    num_classes: int,
    training: np.ndarray,
) -> tuple[TargetSchema, int]:
    real = values.dtype.kind == "f"
    if kind == "binary":
        raise ValueError(
            "labels of nodes cannot be binary: make them multiclass, with 2 classes"
        )
    if (kind == "regression") != real:
        raise ValueError(
            f"node labels are {'values' if real else 'classes'}: kind must be "
            f"{'regression' if real else 'multiclass'}"
        )
    if not (~np.isnan(values) if real else values >= 0).any():
        raise ValueError("no node has a label")
    if real:
        mean, std = target_statistics(values[:, None], np.flatnonzero(training))
        schema = TargetSchema(names, unit, kind, "node", 0, mean, std)
        return schema, int(np.isnan(values).sum())
    found = int(values.max()) + 1
    if num_classes and found > num_classes:
        raise ValueError(f"a node has label {found - 1}, expected 0..{num_classes - 1}")
    num_classes = max(num_classes, found)
    schema = TargetSchema(names, unit, kind, "node", num_classes)
    return schema, int((values < 0).sum())


def _check_classes(values: np.ndarray, num_classes: int) -> int:
    """Number of classes of labels [G, C]; ValueError for anything but 0..classes-1."""
    present = values[~np.isnan(values)]
    wrong = (present < 0) | (present != np.floor(present))
    if num_classes:
        wrong |= present >= num_classes
    if wrong.any():
        limit = num_classes - 1 if num_classes else "classes - 1"
        raise ValueError(
            f"a label is {present[wrong][0]:g}, expected an integer 0..{limit}"
        )
    return num_classes or int(present.max(initial=0)) + 1
