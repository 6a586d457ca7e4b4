"""Facts of molecules that fits and domains keep."""

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.graphs.smiles import identity_of
from graphormer_plugin.estimators.molecule_description import MoleculeDescription


def test_facts():
    texts = ["*CO", "[H][H]", "c1ccccc1Cl", "C[C@H](O)F"]
    facts = MoleculeDescription.of(texts, parents=True)
    assert [np.flatnonzero(row).tolist() for row in facts.kinds] == [
        *([0, 6, 8], [1], [6, 17], [6, 8, 9])
    ]
    assert facts.atoms.tolist() == [2, 0, 7, 4]  # a dummy atom is none
    mols = [Chem.MolFromSmiles(text) for text in texts]
    assert facts.identity.tolist() == [*map(identity_of, mols)]
    assert max(facts.identity) >= 2**63  # none is rounded
    some = facts[np.array([False, True, False, True])]
    assert some.identity.tolist() == facts.identity[[1, 3]].tolist()
    assert some.parent.tolist() == facts.parent[[1, 3]].tolist()


def test_none():
    facts = MoleculeDescription.of([])
    assert len(facts) == len(facts.identity) == len(facts.kinds) == 0
    assert facts.parent is None and facts[[]].parent is None
