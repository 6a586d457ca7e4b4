"""Positions of atoms: RDKit's conformers, units of length, and checks."""

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDistGeom

ATOMS = "atoms"  # column of a file of atoms
NUM_ELEMENTS = 119  # 0 is an atom of no element
NUM_TAGS = 3  # bulk, surface, adsorbate (OC20)
ADSORBATE_LIKE = 1  # tag of atoms that have none
FAR = 1_000_000  # angstrom from the origin
# Distance of the nearest atoms in sums of their covalent radii: about 1 in angstrom, 0.1 for
# nanometres and 1.9 for bohr. The limits are our choice.
SAME_PLACE = 0.01
NANOMETRES = 0.3
BOHR = 1.4
LENGTH_UNITS = {"angstrom": 1.0, "bohr": 0.529177210903, "nm": 10.0}  # in angstrom
ATTEMPTS = 20  # our choice; most molecules need one or two
CARBON = 6
# Relative ranges of lengths that are equal, and of sums of radii that are not; our choice.
EQUAL = 0.03
UNEQUAL = 0.1


@functools.cache
def _covalent_radii() -> np.ndarray:
    """Covalent radius of each element in angstrom."""
    table = Chem.GetPeriodicTable()
    radii = [table.GetRcovalent(number) for number in range(1, NUM_ELEMENTS)]
    return np.array([radii[0], *radii])


def symbol_of(number: int) -> str:
    """Symbol of an element."""
    return Chem.GetPeriodicTable().GetElementSymbol(number)


def check_size(atoms: int, max_atoms: int) -> None:
    """ValueError for a molecule of more atoms than ``max_atoms``."""
    if atoms > max_atoms:
        raise ValueError(f"{atoms:,} atoms, above --max-atoms {max_atoms}")


def nearest_distance(numbers: np.ndarray, pos: np.ndarray) -> float:
    """Smallest distance of an atom to the nearest other one, of atoms [n] at positions [n, 3],
    in sums of their covalent radii; NaN of a single atom. ValueError if no positions are
    like this.
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
    return float(ratios[pair])


def likely_units(nearest: Iterable[float]) -> Counter[str]:
    """Count molecules by the unit that their `nearest_distance` is like."""
    known = np.array([*nearest])
    counts = Counter(bohr=int((known > BOHR).sum()), nm=int((known < NANOMETRES).sum()))
    counts["angstrom"] = int((~np.isnan(known)).sum()) - counts.total()
    return counts


def doubt_of_unit(counts: Counter[str]) -> str:
    """A line if most of some molecules are like those of another unit than angstrom, see
    `likely_units`; else empty. A single molecule may have no bonded atoms."""
    for unit, name, than in (
        ("bohr", "bohr", f"more than {BOHR}"),
        ("nm", "nanometres", f"less than {NANOMETRES}"),
    ):
        if counts[unit] > counts.total() / 2:
            return (
                f"nearest atoms are {than} bond lengths apart in {counts[unit]:,} of "
                f"{counts.total():,} molecules, expected positions in angstrom; are they in "
                f"{name}? --length-unit {unit} converts them, --length-unit angstrom says "
                "that they are right"
            )
    return ""


def check_is_spatial(mol: Any, block: str) -> None:
    """ValueError if a mol block has the positions of a drawing. Where it does not say that,
    all z are 0 and hydrogens are missing, four neighbours lie in a plane, or all bonds are
    equally long although their elements differ."""
    pos = mol.GetConformer().GetPositions()
    if len(pos) < 2 or pos[:, 2].any():
        return
    atoms = [*mol.GetAtoms()]
    is_drawn = block[20:22] == "2D"
    is_drawn |= any(
        atom.GetTotalNumHs() or (atom.GetAtomicNum() == CARBON and atom.GetDegree() > 3)
        for atom in atoms
    )
    if not is_drawn and mol.GetNumBonds():
        numbers = np.array([atom.GetAtomicNum() for atom in atoms])
        ends = np.array(
            [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
        )
        lengths = np.linalg.norm(pos[ends[:, 0]] - pos[ends[:, 1]], axis=1)
        radii = _covalent_radii()[numbers[ends]].sum(1)
        is_drawn = np.ptp(lengths) < EQUAL * lengths.mean()
        is_drawn &= np.ptp(radii) > UNEQUAL * radii.mean()
    if is_drawn:
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
