"""Predictions of a split as files: a CSV, and OGB's format for hidden labels."""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.store import GraphStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    """What OGB's evaluator of a dataset with hidden labels would write.

    Attributes:
        file: Name without suffix.
        graphs: In the official split.
    """

    file: str
    graphs: int


SUBMISSIONS = {
    ("pcqm4m", "test"): Submission("y_pred_pcqm4m", 377_423),
    ("pcqm4mv2", "test-dev"): Submission("y_pred_pcqm4m-v2_test-dev", 147_037),
    ("pcqm4mv2", "test-challenge"): Submission(
        "y_pred_pcqm4m-v2_test-challenge", 147_432
    ),
}


def check_results_path(path: str | os.PathLike[str]) -> None:
    """Before the work: whether predictions can be written there.

    Raises:
        ValueError: it is a file.
    """
    if os.path.exists(path) and not os.path.isdir(path):
        raise ValueError(f"--results-path {path} is a file; name a folder")


def predictions(output: NDArray[np.floating], targets: TargetSchema) -> NDArray:
    """What a model's output says, as float64 in the last dimension's columns.

    Args:
        output: ``[..., C]``, as the model returns it.
        targets: what it was trained on.

    Returns:
        Values in the target's unit, or probabilities of tasks or classes.
    """
    output = np.asarray(output, dtype=np.float64)
    if targets.kind == "regression":
        return targets.restore(output)
    if targets.kind == "binary":
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-output))
    shifted = np.exp(output - output.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def write_predictions(
    folder: str | os.PathLike[str],
    split: str,
    store: GraphStore,
    targets: TargetSchema,
    outputs: dict[int, tuple[NDArray, NDArray]],
) -> list[Path]:
    """Writes what was predicted for a split.

    ``predictions_<split>.csv`` has a line for every graph (at node level for every
    node), in the order of the split in its source. Columns: ``row`` of the source,
    ``node`` at node level; then for regression and binary tasks the value or the
    probability of class 1 under the target's name, and ``<name>_target``; for classes
    ``<name>``, the most probable one, ``<name>_target``, and the probabilities
    ``<name>_0``, ``<name>_1``, ... A missing target is an empty cell.

    A split whose labels OGB keeps also gets the file that its website takes, if every
    graph of the split was predicted.

    Args:
        folder: Created if missing; files of the same names are replaced.
        split: Its name.
        store: What was predicted on.
        targets: What the model was trained on.
        outputs: Output ``[C]`` or ``[n, C]`` and target ``[C]`` or ``[n]`` by graph.

    Returns:
        The files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    graphs = [graph for graph in store.splits[split].tolist() if graph in outputs]
    rows = store.rows(np.array(graphs, dtype=np.int64)).tolist()
    path = folder / f"predictions_{split}.csv"
    name = targets.names[0]
    if targets.kind == "multiclass":
        header = [name, f"{name}_target"]
        header += [f"{name}_{number}" for number in range(targets.num_classes)]
    else:
        header = [*targets.names, *(f"{name}_target" for name in targets.names)]
    at_nodes = targets.level == "node"

    def lines() -> Iterable[list[Any]]:
        yield ["row", *(["node"] if at_nodes else []), *header]
        for row, graph in zip(rows, graphs, strict=True):
            output, target = outputs[graph]
            values = predictions(output, targets)
            if not at_nodes:
                yield [row, *_cells(values, target, targets)]
                continue
            for node, value in enumerate(values):
                yield [row, node, *_cells(value, target[node : node + 1], targets)]

    with atomic_write(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines())
    files = [path]
    submission = SUBMISSIONS.get((store.manifest["dataset"], split))
    if submission is not None:
        values = [predictions(outputs[graph][0], targets)[0] for graph in graphs]
        files += _submit(folder, submission, values, len(store.splits[split]))
    for file in files:
        logger.info("predictions written to %s", file)
    return files


def _cells(values: NDArray, target: NDArray, targets: TargetSchema) -> Sequence[Any]:
    missing = np.isnan(target) if target.dtype.kind == "f" else target < 0
    if targets.kind == "multiclass":
        label = "" if missing[0] else int(target[0])
        return [int(values.argmax()), label, *(f"{value:.6g}" for value in values)]
    labels = [
        "" if gone else f"{value:.8g}"
        for value, gone in zip(target, missing, strict=True)
    ]
    return [*(f"{value:.8g}" for value in values), *labels]


def _submit(
    folder: Path, submission: Submission, values: Sequence[float], graphs: int
) -> list[Path]:
    if len(values) != graphs:
        logger.warning(
            "no file for OGB: %s of %s graphs were predicted",
            f"{len(values):,}",
            f"{graphs:,}",
        )
        return []
    if graphs != submission.graphs:
        logger.warning(
            "OGB will not take %s.npz: %s graphs, the official split has %s",
            submission.file,
            f"{graphs:,}",
            f"{submission.graphs:,}",
        )
    path = folder / f"{submission.file}.npz"
    np.savez_compressed(path, y_pred=np.array(values, dtype=np.float32))
    return [path]
