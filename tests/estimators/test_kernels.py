"""Features of molecules."""

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.estimators.kernels import molecule_features


@pytest.mark.parametrize(
    "text",
    [
        "OCC(CO)N1C=Cc2c(NC(=O)CC34CC5CC(CC(C5)C3)C4)cccc2C1=O",
        r"C[C@H](N)c1ccc(cc1)/C=C\[C@@H]1CCCO1",
    ],
)
def test_spellings_of_a_molecule_have_equal_features(text):
    """RDKit's sums over the atoms differ in their last bits, which ranks would magnify."""
    mol = Chem.MolFromSmiles(text)
    others = [Chem.MolToSmiles(mol, rootedAtAtom=atom) for atom in range(12)]
    for block in ("fingerprint", "descriptors"):
        first, *more = molecule_features(block, [text, *others])
        for one in more:
            np.testing.assert_array_equal(one, first)


def test_stereoisomers_have_different_fingerprints():
    """Whether they are parsed here or by the user."""
    texts = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"]
    texts += ["C/C=C/Cl", r"C/C=C\Cl"]
    counts = molecule_features("fingerprint", texts)
    assert len(np.unique(counts, axis=0)) == 5
    mols = [Chem.MolFromSmiles(text) for text in texts]
    np.testing.assert_array_equal(molecule_features("fingerprint", mols), counts)
