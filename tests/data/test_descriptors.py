"""Morgan fingerprints and RDKit's descriptors as arrays."""

import contextlib

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors

from graphormer_plugin.data import descriptors
from graphormer_plugin.data.datasets.nci import nci_file
from graphormer_plugin.data.descriptors import (
    DESCRIPTORS,
    LEFT_OUT,
    descriptors_of_mols,
    morgan_counts,
    rdkit_descriptors,
)
from graphormer_plugin.data.smiles import mol_of_any_smiles

NAMES = [name for name in DESCRIPTORS if name not in LEFT_OUT]


def test_fingerprints_count_environments():
    ethane, butane = morgan_counts(["CC", "CCCC"])
    assert ethane.sum() == 2 + 1  # two CH3, and one environment of both
    assert ethane.max() == 2
    assert butane.sum() == 4 + 4 + 1  # radius 2 is the whole molecule, once
    assert morgan_counts([]).shape == (0, 2048)
    assert morgan_counts(["CC"], bits=64, radius=0).sum() == 2


def test_descriptors_in_their_order():
    values = rdkit_descriptors(["CCO", "c1ccccc1"])
    assert values.shape == (2, len(NAMES))
    mol = Chem.MolFromSmiles("CCO")
    assert values[0, NAMES.index("MolWt")] == Descriptors.MolWt(mol)
    assert values[1, NAMES.index("RingCount")] == 1


@pytest.mark.long
def test_equal_to_rdkit():
    """Also hydrogens as atoms, metals, charges, fragments and one atom; to the bit."""
    lines = nci_file().read_text().splitlines()[::60]
    smiles = [line.split()[0] for line in lines]
    smiles += ["[2H]C([2H])O", "[H][H]", "[Na+].[Cl-]", "C", "[13CH4]", "*CC", "C[Hg]C"]
    smiles += ["C[Al](C)(C)(C)(C)C", "OC(=O)c1ccccc1OC(C)=O.N", "N[C@@H](C)/C=C/C"]
    mols = []
    for text in smiles:
        with contextlib.suppress(ValueError):
            mols.append((mol_of_any_smiles(text), mol_of_any_smiles(text)))
    found = descriptors_of_mols([mol for mol, _ in mols])
    for row, (_, mol) in zip(found, mols, strict=True):
        expected = Descriptors.CalcMolDescriptors(mol, missingVal=np.nan)
        wrong = [
            name
            for name, value in zip(DESCRIPTORS, row, strict=True)
            if not np.array_equal(value, expected[name], equal_nan=True)
        ]
        assert not wrong, (Chem.MolToSmiles(mol), wrong)


def test_what_is_not_finite_is_nan():
    values = rdkit_descriptors(["[Na+].[Cl-]", "CCO"])
    assert np.isnan(values[0]).any()  # partial charges of sodium
    assert not np.isinf(values).any()
    assert np.nanmax(np.abs(values)) <= np.finfo(np.float32).max


def test_avg_ipc_of_a_large_molecule_is_nan(monkeypatch):
    """It would take a minute for 1,000 atoms, in RDKit."""
    assert descriptors.MOST_FOR_IPC == 256
    monkeypatch.setattr(descriptors, "MOST_FOR_IPC", 20)
    values = rdkit_descriptors(["C" * 20, "C" * 21])
    column = values[:, NAMES.index("AvgIpc")]
    assert np.isnan(column).tolist() == [False, True]
    assert np.isfinite(values[1, NAMES.index("BertzCT")])


@pytest.mark.parametrize("function", [morgan_counts, rdkit_descriptors])
def test_a_molecule_that_rdkit_refuses(function):
    with pytest.raises(ValueError, match="RDKit refuses"):
        function(["CC", "C1CC"])
