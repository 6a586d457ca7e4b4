"""What fits and domains know of molecules beside their features."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem
from rdkit.Chem import rdMolHash

from graphormer_plugin.data.graphs.conformers import NUM_ELEMENTS
from graphormer_plugin.data.graphs.smiles import identity_of, molecule_key
from graphormer_plugin.heads.kernels import as_mol


@dataclass
class MoleculeFacts:
    """Facts of n molecules, a thousandth of the memory of RDKit's molecules.

    Attributes:
        identity: `identity_of` [n].
        constitution: a key that stereoisomers share, and tautomers whose hydrogens move
            between hetero atoms [n].
        elements: whether the molecule has an atom of each atomic number [n, `NUM_ELEMENTS`].
        atoms: number of heavy atoms [n].
    """

    identity: NDArray[np.uint64]
    constitution: NDArray[np.uint64]
    elements: NDArray[np.bool_]
    atoms: NDArray[np.int64]

    @classmethod
    def of(cls, molecules: Sequence[str | Chem.Mol]) -> "MoleculeFacts":
        """Facts of SMILES or RDKit's molecules."""
        keys = np.zeros((2, len(molecules)), np.uint64)
        elements = np.zeros((len(molecules), NUM_ELEMENTS), np.bool_)
        atoms = np.zeros(len(molecules), np.int64)
        for row, molecule in enumerate(molecules):  # one at a time in memory
            mol = as_mol(molecule)
            keys[:, row] = identity_of(mol), _constitution(mol)
            elements[row, [atom.GetAtomicNum() for atom in mol.GetAtoms()]] = True
            atoms[row] = mol.GetNumHeavyAtoms()
        return cls(*keys, elements, atoms)

    def __len__(self) -> int:
        return len(self.atoms)

    def __getitem__(self, rows: ArrayLike) -> "MoleculeFacts":
        return MoleculeFacts(*(column[rows] for column in vars(self).values()))


def _constitution(mol: Chem.Mol) -> int:
    """See `MoleculeFacts`."""
    flat = Chem.Mol(mol)
    Chem.RemoveStereochemistry(flat)
    tautomer = rdMolHash.HashFunction.HetAtomTautomer
    return molecule_key(rdMolHash.MolHash(flat, tautomer))
