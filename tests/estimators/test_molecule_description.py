"""Descriptions of molecules that fits and domains keep."""

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.graphs.smiles import identity_of
from graphormer_plugin.estimators.molecule_description import MoleculeDescription


def test_elements_atoms_and_identity():
    texts = ["*CO", "[H][H]", "c1ccccc1Cl", "C[C@H](O)F"]
    description = MoleculeDescription.of(texts, parents=True)
    assert [np.flatnonzero(row).tolist() for row in description.kinds] == [
        *([0, 6, 8], [1], [6, 17], [6, 8, 9])
    ]
    assert description.atoms.tolist() == [2, 0, 7, 4]  # a dummy atom is none
    mols = [Chem.MolFromSmiles(text) for text in texts]
    assert description.identity.tolist() == [*map(identity_of, mols)]
    assert max(description.identity) >= 2**63  # none is rounded
    some = description[np.array([False, True, False, True])]
    assert some.identity.tolist() == description.identity[[1, 3]].tolist()
    assert some.parent.tolist() == description.parent[[1, 3]].tolist()


def test_none():
    description = MoleculeDescription.of([])
    assert len(description) == len(description.identity) == len(description.kinds) == 0
    assert description.parent is None and description[[]].parent is None
