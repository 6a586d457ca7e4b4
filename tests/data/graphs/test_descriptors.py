"""Morgan fingerprints and RDKit's descriptors as arrays."""

import contextlib

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors, rdMolDescriptors

from graphormer_plugin.data.benchmarks.nci import nci_file
from graphormer_plugin.data.graphs.descriptors import (
    COMPUTED,
    DESCRIPTORS,
    LARGEST,
    morgan_counts,
    rdkit_descriptors,
)
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles, without_isotopes


def test_fingerprints_count_environments():
    ethane, butane = morgan_counts(["CC", "CCCC"])
    assert ethane.sum() == 2 + 1  # two CH3, and one environment of both
    assert ethane.max() == 2
    assert butane.sum() == 4 + 4 + 1  # radius 2 is the whole molecule, once
    assert morgan_counts([]).shape == (0, 2048)
    assert morgan_counts(["CC"], bits=64).shape == (1, 64)


def test_equal_to_rdkit():
    """The molecules have hydrogens as atoms, metals, charges, fragments, or one atom."""
    lines = nci_file().read_text().splitlines()[::60]
    smiles = [line.split()[0] for line in lines]
    smiles += ["[2H]C([2H])O", "[H][H]", "[Na+].[Cl-]", "C", "[13CH4]", "*CC", "C[Hg]C"]
    smiles += ["C[Al](C)(C)(C)(C)C", "OC(=O)c1ccccc1OC(C)=O.N", "N[C@@H](C)/C=C/C"]
    mols = []
    for text in smiles:
        with contextlib.suppress(ValueError):
            mols.append(mol_of_any_smiles(text))
    names = [name for name in COMPUTED if not name.startswith("MQN")]
    functions = dict(Descriptors.descList)
    described = rdkit_descriptors(mols, Chem.Mol)
    for row, mol in zip(described, map(without_isotopes, mols), strict=True):
        expected = [functions[name](mol) for name in names]
        expected = np.array([*expected, *rdMolDescriptors.MQNs_(mol)], float)
        expected[~np.isfinite(expected)] = np.nan
        np.testing.assert_array_equal(row, expected, Chem.MolToSmiles(mol))


def test_what_float32_does_not_hold(monkeypatch):
    """NaN also where RDKit fails: here after the last number."""
    numbers = iter([2.5, np.inf, np.nan, 1e39, -1e39, 1e-50])
    monkeypatch.setitem(DESCRIPTORS, "MolWt", lambda mol: next(numbers))
    values = rdkit_descriptors(["C"] * 7)[:, COMPUTED.index("MolWt")]
    expected = [2.5, np.nan, np.nan, LARGEST, -LARGEST, 0, np.nan]
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("function", [morgan_counts, rdkit_descriptors])
def test_isotopes_are_not_seen(function):
    plain, labelled = function(["Cn1cnc(I)c1", "[13CH3][15n]1cnc([125I])c1"])
    np.testing.assert_array_equal(labelled, plain)


@pytest.mark.parametrize("function", [morgan_counts, rdkit_descriptors])
def test_a_molecule_that_rdkit_refuses(function):
    with pytest.raises(ValueError, match="RDKit refuses"):
        function(["CC", "C1CC"])


def test_a_dative_bond_prints_nothing(capfd):
    """RDKit's BCUT2D would refuse it with a stack of C++ functions."""
    values = rdkit_descriptors(["N->B"])
    assert values[0, COMPUTED.index("MolWt")] > 0
    assert capfd.readouterr() == ("", "")


def test_molecules_keep_nothing():
    """RDKit would leave the contributions of each atom in them."""
    mol = Chem.MolFromSmiles("CCN")

    def properties():
        return [
            {*one.GetPropsAsDict(True, True)} - {"__computedProps"}
            for one in (mol, *mol.GetAtoms())
        ]

    before = properties()
    rdkit_descriptors([mol], parse=lambda mol: mol)
    assert properties() == before
