"""Parts of atoms in fingerprints and descriptors."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from graphormer_plugin.data.graphs.atom_parts import descriptor_parts, morgan_parts
from graphormer_plugin.data.graphs.descriptors import (
    COMPUTED,
    morgan_counts,
    rdkit_descriptors,
)

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
SMILES = [ASPIRIN, "O=S(=O)(N)c1ccc(Cl)nc1C#N", "[2H]C1CCN2CC12.[Na+]", "[H][H]", "*C"]


@pytest.mark.parametrize("smiles", SMILES)
def test_sums(smiles):
    (values,) = rdkit_descriptors([smiles])
    mol = Chem.MolFromSmiles(smiles)
    parts = descriptor_parts(mol, values)
    is_sum = np.isclose(parts.sum(0), values, atol=1e-4)
    assert (parts[:, ~is_sum] == 0).all()
    known = "MolLogP TPSA MolWt ExactMolWt NOCount NumHDonors SMR_VSA1 PEOE_VSA7 MQN12 MQN41"
    assert is_sum[[COMPUTED.index(name) for name in known.split()]].all()
    assert smiles != ASPIRIN or is_sum.sum() > 75
    shares = morgan_parts(mol)
    np.testing.assert_allclose(shares.sum(0), morgan_counts([smiles])[0] > 0)


def test_parts_of_aspirin():
    (values,) = rdkit_descriptors([ASPIRIN])
    mol = Chem.MolFromSmiles(ASPIRIN)
    parts = dict(zip(COMPUTED, descriptor_parts(mol, values).T))
    polar = rdMolDescriptors._CalcTPSAContribs(mol)
    np.testing.assert_array_equal(parts["TPSA"], polar)
    assert parts["NHOHCount"].tolist() == [0] * 12 + [1]
    assert parts["MolWt"][[0, 12]] == pytest.approx([15.035, 17.007], abs=2e-3)
    whole = Chem.AddHs(mol)
    crippen = np.array(rdMolDescriptors._CalcCrippenContribs(whole))[:, 0]
    of_methyl = [0, 13, 14, 15]
    assert parts["MolLogP"][0] == pytest.approx(crippen[of_methyl].sum())


def test_shares_of_bits():
    """Both methyls of ethane set a bit of one atom, and a bit of two."""
    shares = morgan_parts(Chem.MolFromSmiles("CC"))
    assert (shares[:, shares.any(0)] == 0.5).all()
