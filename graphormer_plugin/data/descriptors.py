"""Morgan fingerprints and RDKit's descriptors of molecules, as arrays."""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem import QED, Descriptors, rdMolDescriptors
from rdkit.Chem.EState import EState
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

from graphormer_plugin.data.schema import LARGEST, SMALLEST
from graphormer_plugin.data.smiles import mol_of_smiles

MORGAN_BITS = 2048
MORGAN_RADIUS = 2
BLOCK = 64  # molecules whose descriptors are computed together
# Atoms up to which AvgIpc is computed: 0.3 s at 256 atoms, a minute at 1,000. Our choice.
MOST_FOR_IPC = 256

DESCRIPTORS = tuple(name for name, _ in Descriptors.descList)
LEFT_OUT = {"Ipc": "grows beyond 1e50 with the size and overflows; AvgIpc stays finite"}
COMPUTED = [name for name in DESCRIPTORS if name not in LEFT_OUT]


def morgan_counts(
    smiles: Sequence[str],
    bits: int = MORGAN_BITS,
    radius: int = MORGAN_RADIUS,
    parse: Callable[[str], Chem.Mol] = mol_of_smiles,
    chirality: bool = False,
) -> np.ndarray:
    """Morgan fingerprints with counts, folded.

    Args:
        bits: Length of the folded fingerprint.
        radius: Bonds from the centre of an environment; 2 is ECFP4.
        parse: SMILES -> molecule with known rings.
        chirality: Whether CIP codes of atoms and bonds tell environments apart.

    Returns:
        uint32 [n, bits], how often each environment occurs.

    Raises:
        ValueError: RDKit refuses a molecule.
    """
    generator = GetMorganGenerator(
        radius=radius, fpSize=bits, includeChirality=chirality
    )
    counts = np.zeros((len(smiles), bits), np.uint32)
    for row, text in zip(counts, smiles, strict=True):
        row[:] = generator.GetCountFingerprintAsNumPy(parse(text))
    return counts


def rdkit_descriptors(
    smiles: Sequence[str], parse: Callable[[str], Chem.Mol] = mol_of_smiles
) -> np.ndarray:
    """RDKit's descriptors of the names `COMPUTED`.

    Args:
        parse: SMILES -> molecule with known rings.

    Returns:
        float64 [n, descriptors] within the range of float32. NaN where RDKit gives no
        finite number, as for partial charges of some metals, and for AvgIpc above
        `MOST_FOR_IPC` atoms: trees take NaN as it is, other models need a value in its
        place.

    Raises:
        ValueError: RDKit refuses a molecule.
    """
    values = np.empty((len(smiles), len(COMPUTED)))
    for start in range(0, len(smiles), BLOCK):
        part = slice(start, start + BLOCK)
        values[part] = descriptors_of_mols(
            [parse(text) for text in smiles[part]], COMPUTED
        )
    values[~np.isfinite(values)] = np.nan
    values[np.abs(values) < SMALLEST] = 0
    return np.clip(values, -LARGEST, LARGEST)


def descriptors_of_mols(
    mols: Sequence[Chem.Mol], names: Sequence[str] = DESCRIPTORS
) -> np.ndarray:
    """Descriptors of molecules as RDKit computes them, equal to the last bit; AvgIpc is
    NaN above `MOST_FOR_IPC` atoms.

    One descriptor after another for all molecules, so that its patterns and code stay
    in the processor's cache. Values that several descriptors share are computed once.

    Args:
        mols: Molecules with known rings.
        names: Some of `DESCRIPTORS`.

    Returns:
        float64 [n, names]; NaN where RDKit cannot compute the descriptor.
    """
    functions = dict(Descriptors.descList) | SHARED
    values = np.full((len(mols), len(names)), np.nan)
    for column, name in enumerate(names):
        function = functions[name]
        for row, mol in enumerate(mols):
            # As in RDKit's CalcMolDescriptors, whatever a descriptor raises.
            with contextlib.suppress(Exception):
                values[row, column] = function(mol)
    return values


def estate_indices(mol: Chem.Mol) -> np.ndarray:
    """RDKit's ``EStateIndices``, once per molecule and without its loop over pairs.

    RDKit's other descriptors look for the attribute that this leaves.
    """
    if not hasattr(mol, "_eStateIndices"):
        table = Chem.GetPeriodicTable()
        own = np.zeros(mol.GetNumAtoms())
        for atom in mol.GetAtoms():
            degree, number = atom.GetDegree(), atom.GetAtomicNum()
            if degree:
                shell = EState.GetPrincipleQuantumNumber(number)
                electrons = table.GetNOuterElecs(number) - atom.GetTotalNumHs()
                own[atom.GetIdx()] = (4.0 / (shell * shell) * electrons + 1) / degree
        steps = Chem.GetDistanceMatrix(mol, useBO=False, useAtomWts=False) + 1
        pairs = np.where(steps < 1e6, (own - own[:, None]) / (steps * steps), 0.0)
        # Over the first axis numpy adds row after row, in the order of RDKit's loop.
        mol._eStateIndices = pairs.sum(0) + own
    return mol._eStateIndices


def quantitative_druglikeness(mol: Chem.Mol) -> float:
    """RDKit's ``qed`` with the numbers that other descriptors need, too."""
    clean = Chem.RemoveHs(mol)
    if clean.GetNumAtoms() != mol.GetNumAtoms():
        return QED.qed(mol)
    rings = Chem.DeleteSubstructs(Chem.Mol(mol), QED.AliphaticRings)
    strict = rdMolDescriptors.NumRotatableBondsOptions.Strict
    properties = QED.QEDproperties(
        MW=Descriptors.MolWt(mol),
        ALOGP=Descriptors.MolLogP(mol),
        HBA=sum(len(mol.GetSubstructMatches(part)) for part in QED.Acceptors),
        HBD=Descriptors.NumHDonors(mol),
        PSA=Descriptors.TPSA(mol),
        ROTB=rdMolDescriptors.CalcNumRotatableBonds(mol, strict),
        AROM=len(Chem.GetSSSR(rings)),
        ALERTS=sum(mol.HasSubstructMatch(part) for part in QED.StructuralAlerts),
    )
    return QED.qed(mol, qedProperties=properties)


def information_content(mol: Chem.Mol) -> float:
    """RDKit's ``AvgIpc``, whose time grows with the fourth power of the atoms; NaN above
    `MOST_FOR_IPC` of them."""
    return Descriptors.AvgIpc(mol) if mol.GetNumAtoms() <= MOST_FOR_IPC else np.nan


# In place of RDKit's functions of these names.
SHARED: dict[str, Callable[[Chem.Mol], float]] = {
    "MaxEStateIndex": lambda mol: max(estate_indices(mol)),
    "MinEStateIndex": lambda mol: min(estate_indices(mol)),
    "MaxAbsEStateIndex": lambda mol: max(abs(estate_indices(mol))),
    "MinAbsEStateIndex": lambda mol: min(abs(estate_indices(mol))),
    "qed": quantitative_druglikeness,
    "AvgIpc": information_content,
}
