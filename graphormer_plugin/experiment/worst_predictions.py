"""The worst predicted test molecules, and their nearest neighbours in train."""

import numpy as np
import pandas as pd

from graphormer_plugin.data.smiles import mol_of_any_smiles
from graphormer_plugin.experiment.labelled_molecules import LabelledMolecules
from graphormer_plugin.experiment.predictions import Run
from graphormer_plugin.explain.drawing import Molecule, address, molecule_picture
from graphormer_plugin.heads.domain import most_similar

WORST, NEIGHBOURS = 10, 3  # molecules that are shown


def worst_predicted(tested: pd.DataFrame) -> pd.DataFrame:
    """Rows of `predicted_labels` with the largest errors, the worst first, a molecule once."""
    ordered = tested.sort_values("error", ascending=False, kind="stable")
    return ordered.drop_duplicates("row").head(WORST)


def neighbours(
    table: LabelledMolecules, run: Run, fingerprints: np.ndarray, row: int, target: int
) -> list[tuple[int, float]]:
    """Molecules of train with a label of the target that are most like a molecule, and
    their Tanimoto similarity to it, by the ``fingerprints`` of all molecules [n, bits],
    counts of Morgan's environments."""
    labels = table.trained_labels(run.split, bounds=True)[:, target]
    rows = run.split["train"][~np.isnan(labels)]
    found = most_similar(fingerprints[row], fingerprints[rows], NEIGHBOURS)
    return [(int(rows[place]), likeness) for place, likeness in found]


def structure(smiles: str) -> str:
    """A molecule as RDKit draws it, as an address for a page."""
    panel = Molecule(smiles, mol_of_any_smiles(smiles), None, notes={})
    return address(molecule_picture(panel, "svg", 210), "svg+xml")
