"""Positions of atoms: RDKit's conformers, texts of atoms without bonds, and checks."""

import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDistGeom

ATOMS = "atoms"  # kind of text, see `Table.give`
NUM_ELEMENTS = 119  # 0 is an atom of no element
NUM_TAGS = 3  # bulk, surface, adsorbate (OC20)
ADSORBATE_LIKE = 1  # tag of atoms that have none
# Distance of the nearest atoms in sums of their covalent radii: about 1 in angstrom, 0.1 for
# nanometres and 1.9 for bohr. The limits are our choice.
FAR = 1_000_000  # angstrom from the origin
SAME_PLACE = 0.01
NANOMETRES = 0.3
BOHR = 1.4
ATTEMPTS = 20  # our choice; most molecules need one or two


@functools.cache
def _covalent_radii() -> np.ndarray:
    """Covalent radius of each element in angstrom."""
    table = Chem.GetPeriodicTable()
    radii = [table.GetRcovalent(number) for number in range(1, NUM_ELEMENTS)]
    return np.array([radii[0], *radii])


def check_size(atoms: int, max_atoms: int) -> None:
    """ValueError for a molecule of more atoms than ``max_atoms``."""
    if atoms > max_atoms:
        raise ValueError(f"{atoms:,} atoms, above --max-atoms {max_atoms}")


def nearest_distance(numbers: np.ndarray, pos: np.ndarray) -> float:
    """Smallest distance of an atom to the nearest other one, of atoms [n] at positions [n, 3],
    in sums of their covalent radii; NaN of a single atom. ValueError if no positions in
    angstrom are like this.
    """
    wrong = ~(np.abs(pos) < FAR).all(1)
    if wrong.any():
        atom = int(wrong.argmax())
        raise ValueError(
            f"atom {atom} has position {pos[atom]}, expected three numbers below {FAR:,}"
        )
    if len(pos) < 2:
        return np.nan
    radii = _covalent_radii()[numbers]
    from scipy.spatial import KDTree  # late: most data have no positions

    distances, nearest = KDTree(pos).query(pos, 2)
    distances = distances[:, 1]
    itself = nearest[:, 0] == np.arange(len(pos))
    other = np.where(itself, nearest[:, 1], nearest[:, 0])
    ratios = distances / (radii + radii[other])
    pair = int(ratios.argmin())
    atoms = f"atoms {pair} and {other[pair]}"
    if ratios[pair] < SAME_PLACE:
        raise ValueError(f"{atoms} are in one place")
    if ratios[pair] < NANOMETRES:
        raise ValueError(
            f"{atoms} are {distances[pair]:.3g} apart, expected positions in angstrom; are "
            "they in nanometres?"
        )
    return float(ratios[pair])


def check_unit(nearest: Sequence[float]) -> None:
    """ValueError if the `nearest_distance` of most molecules is like that of bohr. A single
    molecule may have no bonded atoms."""
    known = np.array(nearest)[~np.isnan(nearest)]
    if len(known) and np.median(known) > BOHR:
        raise ValueError(
            f"nearest atoms are {np.median(known):.2g} bond lengths apart in half of the "
            "molecules, expected positions in angstrom; are they in bohr?"
        )


def check_is_spatial(mol: Any, block: str) -> None:
    """ValueError if a mol block has the positions of a drawing: in a plane, and marked as 2D,
    without hydrogens that the molecule has, or with four neighbours around a carbon."""
    flat = not mol.GetConformer().GetPositions()[:, 2].any()
    is_drawn = block.split("\n", 2)[1][20:22] == "2D" or any(
        atom.GetTotalNumHs() or (atom.GetSymbol(), atom.GetDegree()) == ("C", 4)
        for atom in mol.GetAtoms()
    )
    if mol.GetNumAtoms() > 1 and flat and is_drawn:
        raise ValueError(
            "it is a drawing (2D, all z are 0); --positions rdkit makes conformers"
        )


def embedded_positions(mol: Any) -> np.ndarray:
    """Positions [n, 3] in angstrom of a conformer by ETKDG (version 3 in RDKit), equal for all
    spellings of a molecule. ValueError if RDKit finds none.

    Hydrogens that are no atoms of the molecule are added for the search. Its seed is a hash of
    the canonical SMILES.
    """
    smiles = Chem.MolToSmiles(mol)
    order = list(mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    canonical = Chem.AddHs(Chem.RenumberAtoms(mol, order))
    parameters = rdDistGeom.ETKDGv3()
    digest = hashlib.blake2b(smiles.encode(), digest_size=4).digest()
    parameters.randomSeed = int.from_bytes(digest, "little") >> 1  # a positive int32
    # Fragments that are embedded one by one lie in each other.
    parameters.embedFragmentsSeparately = False
    parameters.maxIterations = ATTEMPTS
    try:
        failed = rdDistGeom.EmbedMolecule(canonical, parameters) < 0
        if failed:
            parameters.useRandomCoords = True
            failed = rdDistGeom.EmbedMolecule(canonical, parameters) < 0
    except RuntimeError:  # bounds of distances that contradict each other
        failed = True
    if failed:
        raise ValueError("RDKit finds no conformer (ETKDG)")
    pos = np.empty((len(order), 3))
    pos[order] = canonical.GetConformer().GetPositions()[: len(order)]
    return pos


def atoms_text(
    numbers: np.ndarray,
    pos: np.ndarray,
    tags: np.ndarray | None = None,
    forces: np.ndarray | None = None,
) -> str:
    """Atoms as the text of an `AtomsFeaturiser`: the formula, and the arrays as JSON."""
    symbol = Chem.GetPeriodicTable().GetElementSymbol
    elements, counts = np.unique(numbers, return_counts=True)
    parts = sorted(zip(map(symbol, elements.tolist()), counts.tolist()))
    formula = "".join(f"{name}{count if count > 1 else ''}" for name, count in parts)
    tags = np.full(len(numbers), ADSORBATE_LIKE) if tags is None else tags
    arrays = {"x": np.stack([numbers, tags], 1), "pos": pos}
    if forces is not None:
        arrays["forces"] = forces
    lists = {name: array.tolist() for name, array in arrays.items()}
    return f"{formula}\n{json.dumps(lists)}"
