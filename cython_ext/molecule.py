"""Atoms and bonds of a molecule in RDKit's binary form."""

import numpy as np

from cython_ext import _molecule
from cython_ext._checks import checked_array

# Values of a byte, each of which has a code.
CODES = 256
ATOM_COLUMNS = (
    "atomic number",
    "chirality",
    "degree with hydrogens",
    "formal charge",
    "hydrogens",
    "radical electrons",
    "hybridization",
    "aromatic",
    "in a ring",
)
BOND_COLUMNS = ("type", "stereo", "conjugated")


def read_molecule(
    binary: bytes, atom_codes: np.ndarray, bond_codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Read the atoms and bonds of a molecule that RDKit's ``Mol.ToBinary`` wrote.

    This takes microseconds; RDKit's Python functions take a microsecond for each value.

    Args:
        binary: ``Mol.ToBinary(0)``, format 16.
        atom_codes: int64 ``[9, 256]``, the code of each value of `ATOM_COLUMNS` in
            RDKit's numbering; a negative charge counts from the end. A value
            above 255 has the last code. A negative code refuses the molecule.
        bond_codes: int64 ``[3, 256]`` for `BOND_COLUMNS`.

    Returns:
        x ``[n, 9]``; edge_index ``[2, 2 x bonds]`` with both directions of a bond next
        to each other; edge_attr ``[2 x bonds, 3]``; all int64. None if the format
        differs, a code refuses the molecule, or it has parts that are not read:
        queries, residues, bonds between more than two atoms, and rings other than
        RDKit's symmetric smallest rings.

    Raises:
        ValueError: if codes have another type or shape.
    """
    for name, codes, columns in (
        ("atom_codes", atom_codes, ATOM_COLUMNS),
        ("bond_codes", bond_codes, BOND_COLUMNS),
    ):
        checked_array(name, codes, (np.dtype(np.int64),), (len(columns), CODES))
    return _molecule.read_molecule(binary, atom_codes, bond_codes)
