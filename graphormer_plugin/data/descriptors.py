"""Morgan fingerprints and RDKit's descriptors of molecules, as arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

from graphormer_plugin.data.datasets.smiles import mol_of_smiles

MORGAN_BITS = 2048
MORGAN_RADIUS = 2

DESCRIPTORS = tuple(name for name, _ in Descriptors.descList)
LEFT_OUT = {
    "Ipc": "grows beyond 1e50 with the size and overflows; AvgIpc stays finite",
}


def morgan_counts(
    smiles: Sequence[str],
    bits: int = MORGAN_BITS,
    radius: int = MORGAN_RADIUS,
    parse: Callable[[str], Chem.Mol] = mol_of_smiles,
) -> np.ndarray:
    """Morgan fingerprints with counts, folded.

    Args:
        smiles: Molecules.
        bits: Length of the folded fingerprint.
        radius: Bonds from the centre of an environment; 2 is ECFP4.
        parse: SMILES -> molecule with known rings.

    Returns:
        uint32 [n, bits], how often each environment occurs.

    Raises:
        ValueError: RDKit refuses a molecule.
    """
    generator = GetMorganGenerator(radius=radius, fpSize=bits)
    counts = np.zeros((len(smiles), bits), np.uint32)
    for row, text in zip(counts, smiles, strict=True):
        row[:] = generator.GetCountFingerprintAsNumPy(parse(text))
    return counts


def rdkit_descriptors(
    smiles: Sequence[str], parse: Callable[[str], Chem.Mol] = mol_of_smiles
) -> np.ndarray:
    """RDKit's descriptors except those of `LEFT_OUT`, in the order of `DESCRIPTORS`.

    Args:
        smiles: Molecules.
        parse: SMILES -> molecule with known rings.

    Returns:
        float64 [n, descriptors] within the range of float32. NaN where RDKit gives no
        finite number, as for partial charges of some metals: trees take NaN as it is,
        other models need a value in its place.

    Raises:
        ValueError: RDKit refuses a molecule.
    """
    kept = [place for place, name in enumerate(DESCRIPTORS) if name not in LEFT_OUT]
    values = np.full((len(smiles), len(kept)), np.nan)
    for row, text in zip(values, smiles, strict=True):
        row[:] = np.array(descriptors_of_mol(parse(text)))[kept]
    largest = np.finfo(np.float32).max
    values[~np.isfinite(values)] = np.nan
    return np.clip(values, -largest, largest)


def descriptors_of_mol(mol: Chem.Mol) -> list[Any]:
    """All `DESCRIPTORS` of a molecule; NaN for one that RDKit cannot compute."""
    row = Descriptors.CalcMolDescriptors(mol, missingVal=np.nan)
    return [row[name] for name in DESCRIPTORS]
