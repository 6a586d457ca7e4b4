"""Predictions of a split as files: a CSV, and OGB's format for hidden labels."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.columns import LINK_LEVELS, Level
from graphormer_plugin.data.files import PathName, atomic_write, write_csv
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.prediction import values_of
from graphormer_plugin.inference.prediction_columns import VALIDATED, prediction_columns

logger = logging.getLogger(__name__)


# By dataset and split with hidden labels: name of the file that OGB's evaluator writes, and
# number of graphs of the official split.
SUBMISSIONS = {
    ("pcqm4m", "test"): ("y_pred_pcqm4m", 377_423),
    ("pcqm4mv2", "test-dev"): ("y_pred_pcqm4m-v2_test-dev", 147_037),
    ("pcqm4mv2", "test-challenge"): ("y_pred_pcqm4m-v2_test-challenge", 147_432),
}
# Columns that tell where a label is in its graph.
PLACES = {Level.GRAPH: [], Level.NODE: ["node"]}
PLACES |= dict.fromkeys(LINK_LEVELS, ["source", "target"])


def check_results_path(path: PathName) -> None:
    """Raise ValueError before the evaluation if ``--results-path`` is a file."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise ValueError(f"--results-path {path} is a file; name a folder")


def write_predictions(
    folder: PathName,
    split: str,
    store: GraphStore,
    targets: TargetSchema,
    outputs: dict[int, tuple[NDArray, NDArray]],
    identity: tuple[Sequence[str], Sequence[Sequence[str]]] = ((), ()),
    kind: str = "predictions",
) -> list[Path]:
    """Write the predictions for a split.

    ``predictions_<split>.csv`` has a line for every graph, or for each of its nodes, edges
    or links, in the order of the split. Columns: ``row`` of the source, SMILES and name
    where the source has them, ``node``, or ``source`` and ``target`` of an edge or link,
    and `prediction_columns`. A split with hidden labels has the file that OGB's website
    takes, too, if every graph was predicted.

    Args:
        folder: created if missing; files of the same names are replaced.
        outputs: output and target by graph, ``[C]`` or ``[n, C]``, where padding may follow.
        identity: names of the columns that identify a molecule, and their cells by row
            of the source.
        kind: begins the name of the file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    graphs = [graph for graph in store.splits[split].tolist() if graph in outputs]
    rows = store.rows(np.array(graphs, dtype=np.int64)).tolist()
    path = folder / f"{kind}_{split}.csv"
    columns, cells_of_row = identity
    level = targets.level  # nodes, for forces beside energies
    counts = store.sizes if level is Level.NODE else store.label_counts
    values, labels = (
        [np.atleast_2d(outputs[graph][part])[: counts[graph]] for graph in graphs]
        for part in (0, 1)
    )
    none = np.empty((0, targets.num_outputs))
    values_of_all = values_of(np.concatenate([none, *values]), targets)
    labels_of_all = np.concatenate(labels or [none[:, : len(targets.names)]])
    predicted = prediction_columns(
        targets, values_of_all, labels=labels_of_all, layout=VALIDATED
    )
    header = ["row", *columns, *PLACES[level]]
    first = [
        [row, *(cells_of_row[row] if columns else []), *place]
        for row, graph in zip(rows, graphs, strict=True)
        for place in _places(store, level, graph)
    ]
    cells = zip(*(column.texts for column in predicted), strict=True)
    lines = ([*left, *right] for left, right in zip(first, cells, strict=True))
    write_csv(path, [[*header, *(column.name for column in predicted)], *lines])
    files = [path]
    submission = SUBMISSIONS.get((store.manifest["dataset"], split))
    if submission is not None:
        graphs = len(store.splits[split])
        files += _submit(folder, *submission, values_of_all[:, 0], graphs)
    for file in files:
        logger.info("predictions written to %s", file)
    return files


def _places(store: GraphStore, level: Level, graph: int) -> list[list[int]]:
    """Cells of the `PLACES` of the labels of a graph."""
    if level in LINK_LEVELS:
        return store.edge_label_index(np.array([graph])).tolist()
    return [[]] if level is Level.GRAPH else [[n] for n in range(store.sizes[graph])]


def _submit(
    folder: Path, name: str, official: int, values: NDArray, graphs: int
) -> list[Path]:
    if len(values) != graphs:
        logger.warning(
            "no file for OGB: %s of %s graphs were predicted",
            f"{len(values):,}",
            f"{graphs:,}",
        )
        return []
    if graphs != official:
        logger.warning(
            "OGB will not take %s.npz: %s graphs, the official split has %s",
            name,
            f"{graphs:,}",
            f"{official:,}",
        )
    path = folder / f"{name}.npz"
    with atomic_write(path) as file:
        np.savez_compressed(file, y_pred=values.astype(np.float32))
    return [path]
