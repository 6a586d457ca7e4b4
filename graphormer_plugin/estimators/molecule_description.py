"""What fits and domains know of molecules beside their features."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem

from graphormer_plugin.data.graphs.conformers import NUM_ELEMENTS, symbol_of
from graphormer_plugin.data.graphs.smiles import identity_of, parent_key
from graphormer_plugin.estimators.kernels import as_mol

# Names of the columns of `MoleculeDescription.kinds`: elements, and charges of an atom.
CHARGES = [*range(-8, 0), *range(1, 9)]
KINDS = [*map(symbol_of, range(NUM_ELEMENTS)), *(f"formal_charge {n}" for n in CHARGES)]


@dataclass
class MoleculeDescription:
    """Identity, elements and size of n molecules. RDKit's molecule of a peptide takes a
    thousand times as much memory.

    Attributes:
        identity: `identity_of` [n].
        kinds: whether the molecule has an atom of each of `KINDS` [n, len(KINDS)].
        atoms: number of heavy atoms [n].
        parent: `parent_key` [n]; a head's fit needs it.
    """

    identity: NDArray[np.uint64]
    kinds: NDArray[np.bool_]
    atoms: NDArray[np.int64]
    parent: NDArray[np.uint64] | None = None

    @classmethod
    def of(
        cls, molecules: Sequence[str | Chem.Mol], parents: bool = False
    ) -> "MoleculeDescription":
        """Description of SMILES or RDKit's molecules, with or without `parent`."""
        identity, parent = np.zeros((2, len(molecules)), np.uint64)
        kinds = np.zeros((len(molecules), len(KINDS)), np.bool_)
        atoms = np.zeros(len(molecules), np.int64)
        for row, molecule in enumerate(molecules):  # one at a time in memory
            mol = as_mol(molecule)
            identity[row] = identity_of(mol)
            if parents:
                parent[row] = parent_key(mol)
            for atom in mol.GetAtoms():
                kinds[row, atom.GetAtomicNum()] = True
                if (charge := atom.GetFormalCharge()) in CHARGES:
                    kinds[row, NUM_ELEMENTS + CHARGES.index(charge)] = True
            atoms[row] = mol.GetNumHeavyAtoms()
        return cls(identity, kinds, atoms, parent if parents else None)

    def __len__(self) -> int:
        return len(self.atoms)

    def __getitem__(self, rows: ArrayLike) -> "MoleculeDescription":
        columns = vars(self).values()
        return MoleculeDescription(*(None if x is None else x[rows] for x in columns))
