"""Energies of the elements, which are fitted to labels and subtracted."""

import dataclasses
import logging

import numpy as np

from graphormer_plugin.data.columns import Level, rows_of_graphs
from graphormer_plugin.data.graphs.featurisers import AtomsFeaturiser
from graphormer_plugin.data.graphs.smiles import PLACED, PLAIN
from graphormer_plugin.data.store.sharded_store import Stores
from graphormer_plugin.data.targets import TargetSchema

logger = logging.getLogger(__name__)

LOWERED = (
    0.5  # spread of the labels that is left, below which they are extensive; our choice
)
OF_FILES = (AtomsFeaturiser.name, PLACED.name)


def fit_elements(
    store: Stores,
) -> tuple[list[float], np.ndarray, float]:
    """Fit the labels of the training split by an energy of each value of the first column of
    nodes, by least squares.

    Returns:
        the energies, what they leave of each label, and the share of the labels' spread that
        is left, by the degrees of freedom.
    """
    schema = store.schema
    types = schema.node_dims[0] if schema.categorical else 0
    counts = []
    labels = []
    for part in store.stores:
        ids = part.graphs_in("train")
        rows = rows_of_graphs(part.columns, ids, Level.NODE)
        of_graphs = np.zeros((len(ids), types))
        if types:
            graphs = np.repeat(np.arange(len(ids)), part.sizes[ids])
            np.add.at(of_graphs, (graphs, part.columns["x"][rows, 0]), 1)
        counts.append(of_graphs)
        labels.append(np.asarray(part.target[ids, 0], np.float64))
    y = np.concatenate(labels)
    x = np.concatenate(counts)[np.isfinite(y)]
    y = y[np.isfinite(y)]
    energies, _, rank, _ = np.linalg.lstsq(x, y)
    rest = y - x @ energies
    free = len(y) - int(rank)
    left = (
        np.sqrt((rest**2).sum() / free) / y.std(ddof=1)
        if free > 0 and np.ptp(y)
        else 1.0
    )
    return energies.tolist(), rest, float(left)


def targets_of_task(store: Stores, choice: str) -> TargetSchema:
    """The targets of a dataset, without energies of the elements where ``choice`` (yes, no, or
    empty for extensive targets of files with positions) wants that."""
    targets = store.targets
    possible = targets.is_one_number and targets.level is Level.GRAPH
    possible &= "bound" not in store.columns
    possible &= store.featuriser.startswith((AtomsFeaturiser.name, PLAIN.name))
    if choice == "yes" and not possible:
        raise ValueError(
            f"--element-energies yes: {', '.join(targets.names)}, expected one number of "
            "molecules or atoms, without bounds"
        )
    wanted = choice == "yes" if choice else store.featuriser in OF_FILES
    if not (wanted and possible):
        return targets
    energies, rest, left = fit_elements(store)
    if not choice and left >= LOWERED:
        return targets
    logger.info(
        "energies of the elements, fitted to train, leave %.2g of the spread of %s; models "
        "learn the rest (--element-energies no: all)",
        left,
        targets.names[0],
    )
    targets = targets.scaled([float(rest.mean())], [float(rest.std()) or 1.0])
    return dataclasses.replace(targets, atom_energies=energies)
