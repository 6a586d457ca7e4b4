"""Training molecules that resemble a molecule, with their labels."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.files import read_text
from graphormer_plugin.data.graphs.featurisers import Featuriser
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.tables.cells import ParsedColumn
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.labels import label_text
from graphormer_plugin.estimators.domain import most_similar
from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.inference.model_folder import (
    MOLECULES_FILE,
    SMILES_COLUMN,
    SPLIT_FILE,
)
from graphormer_plugin.inference.molecules import smiles_of
from graphormer_plugin.workbench.explain.drawing import Group, Molecule

SHOWN = 4  # panels of each kind, our choice
ADDENDS = 10
LABEL = ParsedColumn("", censored=True).label  # of a cell of the folder's table


class TrainingMolecules:
    """Molecules with a label of ``target`` that models of ``graphormer-train`` were fitted to:
    rows of train and valid in the table of the experiment's folder."""

    def __init__(
        self, checkpoints: Sequence[Path], target: str, featuriser: Featuriser
    ) -> None:
        rows: dict[Path, set[int]] = {}  # by table
        for run in {path.absolute().parent.parent for path in checkpoints}:
            if (run / SPLIT_FILE).exists():
                parts = json.loads(read_text(run / SPLIT_FILE))
                fitted = (parts[name] for name in parts if name != "test")
                rows.setdefault(run.parent / MOLECULES_FILE, set()).update(*fitted)
        molecules: list[list[str]] = []
        for path, of_table in sorted(rows.items()):
            table = open_table(path)
            scale = next(
                (s for s in Scale if s + target in table.places), Scale.IDENTITY
            )
            columns = [SMILES_COLUMN, table.require(scale + target)]
            columns += table.find_name(SMILES_COLUMN)
            rows_of_file = [r for r in table.rows(columns) if r.number in of_table]
            of_file = [row.cells for row in rows_of_file if row.cells[1]]
            for of_row in of_file if scale else ():
                # without the last digits of rounding
                label = LABEL(of_row[1])
                of_row[1] = label_text(
                    lambda x, scale=scale: f"{scale.inverse(x):.10g}", *label
                )
            molecules += of_file
        smiles = [cells[0] for cells in molecules]
        self.mols = [mol_of_any_smiles(text) for text in smiles_of(smiles, featuriser)]
        self.labels = np.array([cells[1] for cells in molecules])
        self.names = ["".join(cells[2:]) for cells in molecules]
        self.counts = molecule_features("fingerprint", self.mols)

    def nearest(
        self, mol: Chem.Mol, unit: str, among: np.ndarray | None = None
    ) -> list[Molecule]:
        """Panels of the most similar molecules, at most `SHOWN`, of those ``among`` [n] or of
        all. Their titles have name, label, and the Tanimoto similarity of Morgan counts.
        """
        rows = np.arange(len(self.mols)) if among is None else np.flatnonzero(among)
        (counts,) = molecule_features("fingerprint", [mol])
        panels = []
        for index, likeness in most_similar(counts, self.counts[rows], SHOWN):
            text = f"similarity {likeness:.2f}"
            panels.append(self._panel(rows[index], unit, text))
        return panels

    def addends(
        self, addends: Mapping[bytes, float], learned: str, unit: str
    ) -> list[Group]:
        """Panels of the molecules of the highest and of the lowest addends of what models have
        ``learned``, at most `ADDENDS` each, by the bytes of their Morgan counts."""
        row_of = {x.tobytes(): row for row, x in [*enumerate(self.counts)][::-1]}
        groups = []
        for way, sign in (("raise", 1), ("lower", -1)):
            pushes = [
                (sign * x, row_of[key]) for key, x in addends.items() if key in row_of
            ]
            pushes.sort(key=lambda pair: -pair[0])
            panels = [
                self._panel(row, unit, f"{sign * push:+.3g}")
                for push, row in pushes[:ADDENDS]
                if push > 0
            ]
            groups.append((f"training molecules that {way} {learned} most", panels))
        return groups

    def _panel(self, row: int, unit: str, text: str) -> Molecule:
        """The molecule of a row, with name, label and a text above."""
        name = f"{self.names[row][:20]}: " if self.names[row] else ""
        label = f"{self.labels[row]} {unit}".rstrip()
        return Molecule(f"{name}{label}, {text}", self.mols[row], None, notes={})

    def other_outcome(self, predicted: str | float) -> np.ndarray:
        """Whether the label of each molecule [n] is another class, or differs from the
        predicted number by more than the standard deviation of all labels (our choice).
        """
        if isinstance(predicted, str):
            return self.labels != predicted
        numbers = np.array([label for label, _ in map(LABEL, self.labels)])
        spread = numbers.std() if len(numbers) else 0.0
        return np.abs(numbers - predicted) > spread
