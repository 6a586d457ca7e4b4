"""Predictions of a split as files: a CSV, and OGB's format for hidden labels."""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.csv_lines import write_csv
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.inference.classes import (
    ClassWords,
    class_labels,
    label_cells,
)
from graphormer_plugin.inference.values import values_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    """The file that OGB's evaluator writes for a dataset with hidden labels.

    Attributes:
        file: its name without suffix.
        graphs: number of graphs in the official split.
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
    """Check before the evaluation that predictions can be written to a folder.

    Raises:
        ValueError: the path is a file.
    """
    if os.path.exists(path) and not os.path.isdir(path):
        raise ValueError(f"--results-path {path} is a file; name a folder")


def write_predictions(
    folder: str | os.PathLike[str],
    split: str,
    store: GraphStore,
    targets: TargetSchema,
    outputs: dict[int, tuple[NDArray, NDArray]],
    identity: tuple[Sequence[str], Sequence[Sequence[str]]] = ((), ()),
) -> list[Path]:
    """Write the predictions for a split.

    ``predictions_<split>.csv`` has a line for every graph (at node level for every
    node), in the order of the split. Columns: ``row`` of the source, SMILES and name
    where the source has them, and ``node`` at node level. Then for regression and binary
    targets, under the target's name, the value or the probability of class 1, and
    ``<name>_target``. For classes ``<name>``, the most probable class,
    ``<name>_target``, and the probabilities ``<name>_0``, ``<name>_1``, ... Where the
    source has words for classes, so has the file, and ``<name>_class`` is the predicted
    class of a binary target. A missing target is an empty cell.

    For a split with hidden labels, also writes the file that OGB's website takes, if
    every graph of the split was predicted.

    Args:
        folder: created if missing; files of the same names are replaced.
        split: its name.
        store: the data.
        targets: the targets that the model was trained on.
        outputs: output ``[C]`` or ``[n, C]`` and target ``[C]`` or ``[n]`` by graph.
        identity: names of the columns that identify a molecule, and their cells by row
            of the source.

    Returns:
        Paths of the files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    graphs = [graph for graph in store.splits[split].tolist() if graph in outputs]
    rows = store.rows(np.array(graphs, dtype=np.int64)).tolist()
    path = folder / f"predictions_{split}.csv"
    name = targets.names[0]
    if targets.kind == "multiclass":
        header = [name, f"{name}_target"]
        header += [f"{name}_{label}" for label in class_labels(targets)]
    else:
        header = [*targets.names, *(f"{name}_target" for name in targets.names)]
    words = ClassWords(targets)
    header += words.names
    at_nodes = targets.level == "node"
    columns, known = identity

    def lines() -> Iterable[list[Any]]:
        yield ["row", *columns, *(["node"] if at_nodes else []), *header]
        for row, graph in zip(rows, graphs, strict=True):
            output, target = outputs[graph]
            values = values_of(output, targets)
            first = [row, *(known[row] if columns else [])]
            if not at_nodes:
                yield [*first, *_cells(values, target, targets, words)]
                continue
            for node, value in enumerate(values):
                label = target[node : node + 1]
                yield [*first, node, *_cells(value, label, targets, words)]

    write_csv(path, lines())
    files = [path]
    submission = SUBMISSIONS.get((store.manifest["dataset"], split))
    if submission is not None:
        values = [values_of(outputs[graph][0], targets)[0] for graph in graphs]
        files += _submit(folder, submission, values, len(store.splits[split]))
    for file in files:
        logger.info("predictions written to %s", file)
    return files


def _cells(
    values: NDArray, target: NDArray, targets: TargetSchema, words: ClassWords
) -> list[str]:
    labels = label_cells(target, targets)
    if targets.kind == "multiclass":
        best, *cells = words([float(values.argmax()), *values])
        return [best, *labels, *cells]
    cells, count = words(values), len(targets.names)
    return [*cells[:count], *labels, *cells[count:]]


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
    with atomic_write(path) as file:
        np.savez_compressed(file, y_pred=np.array(values, dtype=np.float32))
    return [path]
