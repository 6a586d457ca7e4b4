"""Contributions of atoms and fragments: the change of a prediction without them.

The contribution of a fragment is the prediction for the molecule minus the prediction for
the rest of it, as in the universal interpretation of Polishchuk et al. 2013
(doi:10.1002/minf.201300029) and, with fragments of BRICS and of Murcko's decomposition, in
Wu et al. 2023 (doi:10.1038/s41467-023-38192-3). That hydrogens close the open valences is
our choice: the rest is a molecule like others, which every model can read.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from rdkit import Chem
from rdkit.Chem import BRICS

from graphormer_plugin.data.graphs.smiles import captured_rdkit_log
from graphormer_plugin.data.store.featurise import RowReader
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.inference.molecules import Molecules, read_rows
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.workbench.explain.myerson import myerson_values

Atoms = tuple[int, ...]


class Contribution(NamedTuple):
    """What a part of a molecule adds to its prediction.

    Attributes:
        value: in the unit of the target, or a difference of probabilities; NaN where
            nothing is left of the molecule, or nothing that the model reads.
    """

    kind: str  # key of `PARTS`
    atoms: Atoms  # from 0; the first is the centre of an environment
    smiles: str
    value: float


def contributions(
    predictor: Predictor,
    molecules: Molecules,
    output: int = 0,
    extra: np.ndarray | None = None,
) -> list[Contribution]:
    """Contributions of all atoms and fragments of a molecule; ``extra`` [columns] has its
    numbers for `Predictor.extra_columns` (default: `Predictor.typical_extra`)."""
    mol = molecules.mol(0)
    parts = [(kind, atoms) for kind, split in PARTS.items() for atoms in split(mol)]
    rests = [without(mol, atoms) for _, atoms in parts]
    whole = molecules.texts[0]
    value_of = _predicted(predictor, molecules, [whole, *rests], output, extra)
    return [
        Contribution(
            kind,
            atoms,
            Chem.MolFragmentToSmiles(mol, atoms),
            value_of[whole] - value_of[rest],
        )
        for (kind, atoms), rest in zip(parts, rests, strict=True)
    ]


def shares(
    predictor: Predictor,
    molecules: Molecules,
    kind: str,
    output: int = 0,
    extra: np.ndarray | None = None,
) -> tuple[list[Contribution], Floats]:
    """Myerson values of the parts of a molecule of a ``kind``, a key of `PARTS` whose parts
    have no common atoms, and their standard errors; see `myerson_values`. A set of parts is worth
    the prediction for it with hydrogens in place of the others, or 0 if the model does not
    read that."""
    mol = molecules.mol(0)
    parts = PARTS[kind](mol)
    part_of = {atom: index for index, atoms in enumerate(parts) for atom in atoms}
    neighbours = [0] * len(parts)
    for bond in mol.GetBonds():
        ends = [part_of[bond.GetBeginAtomIdx()], part_of[bond.GetEndAtomIdx()]]
        for one, other in (ends, ends[::-1]):
            neighbours[one] |= (1 << other) & ~(1 << one)

    def worth(sets: Sequence[int]) -> Floats:
        rests = [
            without(mol, [a for a in part_of if not members >> part_of[a] & 1])
            for members in sets
        ]
        value_of = _predicted(predictor, molecules, rests, output, extra)
        return np.nan_to_num([value_of[rest] for rest in rests])

    values, errors = myerson_values(neighbours, worth)
    named = [
        Contribution(kind, atoms, Chem.MolFragmentToSmiles(mol, atoms), value)
        for atoms, value in zip(parts, values.tolist(), strict=True)
    ]
    return named, errors


def _predicted(
    predictor: Predictor,
    molecules: Molecules,
    rests: Iterable[str],
    output: int,
    extra: np.ndarray | None,
) -> dict[str, float]:
    """Predictions by SMILES, each once, with all fragments; NaN for an empty one, and for one
    that the model does not read."""
    smiles = sorted({*rests} - {""})
    mol = molecules.mol(0)
    featuriser = molecules.featuriser.with_all_fragments()
    schemas = [member.schema for member in predictor.members]
    reader = RowReader(featuriser.read, mol.GetNumAtoms(), schemas, featuriser)
    read, _ = read_rows(reader, smiles)
    numbers = predictor.typical_extra if extra is None else extra
    values = np.full(len(smiles), np.nan)
    values[read.chunk.row] = predictor.predict(
        read, extra=np.tile(numbers, (len(read), 1))
    )[:, output]
    return {"": np.nan, **dict(zip(smiles, values.tolist(), strict=True))}


def without(mol: Chem.Mol, atoms: Iterable[int]) -> str:
    """SMILES of a molecule without some atoms, with hydrogens in their place; charges stay.
    Empty if RDKit takes the rest for no molecule."""
    mol = Chem.Mol(mol)
    gone = {*atoms}
    Chem.Kekulize(mol, clearAromaticFlags=True)
    cut = [
        bond.GetIdx()
        for bond in mol.GetBonds()
        if (bond.GetBeginAtomIdx() in gone) != (bond.GetEndAtomIdx() in gone)
    ]
    # The dummy atoms of a cut keep the chirality of their neighbours.
    labels = [(0, 0)] * len(cut)
    rest = Chem.RWMol(
        Chem.FragmentOnBonds(mol, cut, dummyLabels=labels) if cut else mol
    )
    for dummy in range(mol.GetNumAtoms(), rest.GetNumAtoms()):
        (bond,) = rest.GetAtomWithIdx(dummy).GetBonds()
        other = bond.GetOtherAtomIdx(dummy)
        if other in gone:
            gone.add(dummy)
            continue
        rest.GetAtomWithIdx(dummy).SetAtomicNum(1)
        order = int(bond.GetBondTypeAsDouble())
        bond.SetBondType(Chem.BondType.SINGLE)
        for _ in range(order - 1):
            rest.AddBond(other, rest.AddAtom(Chem.Atom(1)), Chem.BondType.SINGLE)
    for atom in sorted(gone, reverse=True):
        rest.RemoveAtom(atom)
    parameters = Chem.RemoveHsParameters()
    parameters.removeDefiningBondStereo = True  # a double bond to CH2 has none
    with captured_rdkit_log():
        try:
            return Chem.MolToSmiles(Chem.RemoveHs(rest, parameters))
        except ValueError:
            return ""


def brics_fragments(mol: Chem.Mol) -> list[Atoms]:
    """Fragments between the bonds that BRICS would break."""
    bonds = [
        mol.GetBondBetweenAtoms(*ends).GetIdx() for ends, _ in BRICS.FindBRICSBonds(mol)
    ]
    return _pieces(mol, bonds)


def murcko_parts(mol: Chem.Mol) -> list[Atoms]:
    """Ring systems, linkers and side chains: the Bemis-Murcko scaffold in its parts."""
    mol = Chem.Mol(mol)
    for atom in mol.GetAtoms():
        atom.SetIntProp("index", atom.GetIdx())
    scaffold = {a.GetIntProp("index") for a in Chem.MurckoDecompose(mol).GetAtoms()}
    bonds = []
    for bond in mol.GetBonds():
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        leaves_scaffold = len({end.GetIdx() in scaffold for end in ends}) == 2
        leaves_ring = any(end.IsInRing() for end in ends) and not bond.IsInRing()
        if leaves_scaffold or leaves_ring:
            bonds.append(bond.GetIdx())
    return _pieces(mol, bonds)


def environments(mol: Chem.Mol) -> list[Atoms]:
    """Each atom with its neighbours: the environments of radius 1 that Morgan
    fingerprints count."""
    return [
        (atom.GetIdx(), *(neighbour.GetIdx() for neighbour in atom.GetNeighbors()))
        for atom in mol.GetAtoms()
    ]


def _pieces(mol: Chem.Mol, bonds: list[int]) -> list[Atoms]:
    """Atoms of the pieces that a molecule falls into without some bonds."""
    if bonds:
        mol = Chem.FragmentOnBonds(mol, bonds, addDummies=False)
    return list(Chem.GetMolFrags(mol))


ATOMS = "atoms"
BRICS_FRAGMENTS = "BRICS fragments"
MURCKO_PARTS = "rings, linkers, side chains"
ENVIRONMENTS = "environments"
FRAGMENTS = (BRICS_FRAGMENTS, MURCKO_PARTS)
PARTS: dict[str, Callable[[Chem.Mol], list[Atoms]]] = {
    ATOMS: lambda mol: [(atom,) for atom in range(mol.GetNumAtoms())],
    BRICS_FRAGMENTS: brics_fragments,
    MURCKO_PARTS: murcko_parts,
    ENVIRONMENTS: environments,
}
