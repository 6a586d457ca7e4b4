"""Parts of atoms in the Morgan counts and the descriptors of a molecule."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import Lipinski, MolSurf, rdMolDescriptors, rdPartialCharges
from rdkit.Chem.rdFingerprintGenerator import AdditionalOutput

from graphormer_plugin.data.graphs.descriptors import (
    COMPUTED,
    MORGAN_BITS,
    morgan_generator,
)
from graphormer_plugin.data.graphs.smiles import without_isotopes

# Patterns of the atoms or bonds that descriptors count.
COUNTED = """HeavyAtomCount [!#1;!#0] NOCount [#7,#8] NumHeteroatoms [!#6] NumAmideBonds C(=O)-N
MQN1 [#6] MQN2 F MQN3 Cl MQN4 Br MQN5 I MQN6 [#16] MQN7 [#15] MQN8 [#7;R0] MQN9 [#7;R]
MQN10 [#8;R0] MQN11 [#8;R] MQN12 [!#1;!#0] MQN13 *-;!@* MQN14 *=;!@* MQN15 *#;!@* MQN18 *#;@*
MQN24 [-] MQN25 [+] MQN26 [D1] MQN27 [D2;R0] MQN28 [D3;R0] MQN29 [D4;R0] MQN30 [D2;R]
MQN31 [D3;R] MQN32 [D4;R] MQN41 [R{2-}]""".split()
PATTERNS = dict(zip(COUNTED[::2], map(Chem.MolFromSmarts, COUNTED[1::2])))
PATTERNS |= dict.fromkeys(("NumHDonors", "MQN23"), Lipinski.HDonorSmarts)
ELEMENTS = Chem.GetPeriodicTable()
MASSES = {
    "MolWt": ELEMENTS.GetAtomicWeight,
    "ExactMolWt": ELEMENTS.GetMostCommonIsotopeMass,
}


def morgan_parts(mol: Chem.Mol) -> NDArray[np.float64]:
    """Shares of atoms in each bit of `morgan_counts` [N, bits]: equal for the environments
    that set it, and for the atoms of an environment. The shares of a bit add up to 1, or 0.
    """
    mol = without_isotopes(mol)
    found = AdditionalOutput()
    found.AllocateBitInfoMap()
    morgan_generator().GetCountFingerprint(mol, additionalOutput=found)
    distances = Chem.GetDistanceMatrix(mol)
    parts = np.zeros((len(distances), MORGAN_BITS))
    for bit, places in found.GetBitInfoMap().items():
        for centre, radius in places:
            inside = distances[centre] <= radius
            parts[inside, bit] += 1 / inside.sum() / len(places)
    return parts


def descriptor_parts(mol: Chem.Mol, values: NDArray) -> NDArray[np.float64]:
    """Parts of atoms [N, descriptors] that add up to the ``values`` of `rdkit_descriptors`.

    Crippen's logP and refractivity, polar and Labute's surfaces, masses, and counts of
    atoms, hydrogens and bonds are such sums. A hydrogen counts to its atom; the atoms of a
    bond share it equally, and so do hydrogens their part of Labute's surface. A column is 0
    for another descriptor, and where RDKit counts differently.
    """
    mol = without_isotopes(mol)
    atoms = [*mol.GetAtoms()]
    parts: dict[str, NDArray] = defaultdict(lambda: np.zeros(len(atoms)))
    for name, pattern in PATTERNS.items():
        for match in mol.GetSubstructMatches(pattern):
            parts[name][[*match]] += 1 / len(match)
    hydrogens = np.array([atom.GetTotalNumHs() for atom in atoms])
    surface, of_hydrogens = rdMolDescriptors._CalcLabuteASAContribs(mol)
    parts["LabuteASA"] += surface + hydrogens * of_hydrogens / max(hydrogens.sum(), 1)
    parts["TPSA"] += rdMolDescriptors._CalcTPSAContribs(mol)
    parts["NHOHCount"] = parts["MQN22"] = hydrogens * parts["NOCount"]
    for name, mass in MASSES.items():
        parts[name] += [mass(atom.GetAtomicNum()) for atom in atoms]
        parts[name] += hydrogens * mass(1)
    parts["HeavyAtomMolWt"] = parts["MolWt"] - hydrogens * MASSES["MolWt"](1)
    whole = Chem.AddHs(mol)
    owner = [
        atom.GetNeighbors()[0].GetIdx() for atom in [*whole.GetAtoms()][len(atoms) :]
    ]
    for name, of_atoms in zip(("MolLogP", "MolMR"), _crippen(whole)):
        parts[name] = np.bincount([*range(len(atoms)), *owner], of_atoms)
    charged = Chem.Mol(mol)
    rdPartialCharges.ComputeGasteigerCharges(charged)
    charges = [atom.GetDoubleProp("_GasteigerCharge") for atom in charged.GetAtoms()]
    log_p, refractivity = _crippen(mol)
    for family, edges, of_atoms in (
        ("PEOE", MolSurf.chgBins, charges),
        ("SlogP", MolSurf.logpBins, log_p),
        ("SMR", MolSurf.mrBins, refractivity),
    ):
        for atom, place in enumerate(np.digitize(of_atoms, edges)):
            parts[f"{family}_VSA{place + 1}"][atom] = surface[atom]
    found = np.stack([parts[name] for name in COMPUTED], 1)
    return np.where(np.isclose(found.sum(0), values, atol=1e-4), found, 0)


def _crippen(mol: Chem.Mol) -> NDArray[np.float64]:
    """Contributions of atoms to Crippen's logP and refractivity [2, N]."""
    return np.transpose(rdMolDescriptors._CalcCrippenContribs(mol))
