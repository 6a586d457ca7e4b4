"""The worst predicted test molecules, and their nearest neighbours in train."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphormer_plugin.data.smiles import mol_of_any_smiles
from graphormer_plugin.experiment.labelled_table import Table
from graphormer_plugin.experiment.results import Run, label_spread
from graphormer_plugin.explain.drawing import Molecule, address, molecule_picture
from graphormer_plugin.heads.domain import most_similar

WORST, NEIGHBOURS = 10, 3  # molecules that are shown


class Worst(NamedTuple):
    """A badly predicted label.

    Attributes:
        run: Number of the run, from 0.
        row: Of the molecule.
        target: Number of the target.
        error: See `relative_errors`.
    """

    run: int
    row: int
    target: int
    error: float


def relative_errors(table: Table, run: Run) -> np.ndarray:
    """Sizes of the errors of the test molecules [n, T], NaN without a label: in standard
    deviations of the target in train; of classes, what the label's probability lacks
    to 1."""
    labels = table.scored_labels(run.split, "test")
    values = run.predicted.values[run.split["test"]]
    if table.targets.kind == "multiclass":
        classes = np.nan_to_num(labels).astype(int)
        return 1 - np.take_along_axis(values, classes, 1) + 0 * labels
    errors = np.abs(values - labels)
    if table.targets.kind == "regression":
        errors /= label_spread(table, run.split)
    return errors


def worst_predicted(table: Table, runs: Sequence[Run]) -> list[Worst]:
    """The test molecules with the largest errors, the worst first, each once."""
    found = [
        Worst(number, int(run.split["test"][row]), target, errors[row, target])
        for number, run in enumerate(runs)
        for errors in [relative_errors(table, run)]
        for row, target in np.argwhere(~np.isnan(errors)).tolist()
    ]
    first: dict[int, Worst] = {}
    for one in sorted(found, key=lambda one: -one.error):
        first.setdefault(one.row, one)
    return [*first.values()][:WORST]


def neighbours(
    table: Table, run: Run, fingerprints: np.ndarray, one: Worst
) -> list[tuple[int, float]]:
    """Molecules of train with a label of the target that are most like a molecule, and
    their Tanimoto similarity to it, by the ``fingerprints`` of all molecules [n, bits],
    counts of Morgan's environments."""
    labels = table.trained_labels(run.split, bounds=True)[:, one.target]
    rows = run.split["train"][~np.isnan(labels)]
    found = most_similar(fingerprints[one.row], fingerprints[rows], NEIGHBOURS)
    return [(int(rows[place]), likeness) for place, likeness in found]


def structure(smiles: str) -> str:
    """A molecule as RDKit draws it, as an address for a page."""
    panel = Molecule(smiles, mol_of_any_smiles(smiles), None, notes={})
    return address(molecule_picture(panel, "svg", 210), "svg+xml")
