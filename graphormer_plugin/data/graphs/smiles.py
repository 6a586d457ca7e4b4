"""Graphs of SMILES with OGB's features."""

import contextlib
import functools
import hashlib
import importlib.util
import logging
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.rdMolHash import HashFunction, MolHash

from cython_ext import read_molecule
from cython_ext.molecule import CODES
from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.graphs.chunk import Dims, MoleculeGraph
from graphormer_plugin.data.graphs.conformers import (
    check_is_spatial,
    embedded_positions,
    nearest_distance,
    symbol_of,
)
from graphormer_plugin.data.graphs.sources import MolBlock, Source

MAP_NUMBER = re.compile(r":\d+\]")  # atom map, such as [CH3:1]
POSITIONS = ("none", "file", "rdkit")
METALS = rdMolStandardize.MetalDisconnector()
CARBON = 5  # in OGB's first column of an atom
# OGB's columns of atoms, and RDKit's types of their values where these are no numbers.
ATOM_COLUMNS = {
    "atomic_num": None,
    "chirality": Chem.ChiralType,
    "degree": None,
    "formal_charge": None,
    "numH": None,
    "number_radical_e": None,
    "hybridization": Chem.HybridizationType,
    "is_aromatic": None,
    "is_in_ring": None,
}
HEAVY_HYDROGEN = re.compile(r"\[[23]H|/i")  # in a SMILES, or isotopes of an InChI


def module_in(path: Path) -> types.ModuleType:
    """Module in a file, which is loaded by its path."""
    spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _ogb_features() -> types.ModuleType:
    """OGB's feature lists, without the package, whose import asks a server for its newest
    version."""
    folder = importlib.util.find_spec("ogb").submodule_search_locations[0]
    return module_in(Path(folder) / "utils" / "features.py")


def feature_dims() -> Dims:
    """Number of values of OGB's 9 node columns and 3 bond columns."""
    features = _ogb_features()
    return features.get_atom_feature_dims(), features.get_bond_feature_dims()


def graph_of_mol(mol: Any) -> MoleculeGraph:
    """Graph of an RDKit molecule as ``ogb.utils.smiles2graph`` makes it: x int64 [atoms, 9],
    edge_index int64 [2, 2 x bonds] with both directions of a bond next to each other, and
    edge_attr int64 [2 x bonds, 3].

    RDKit's binary form of the molecule is read in a tenth of the time of
    `graph_atom_by_atom`, which takes the molecules that this reader refuses.
    """
    arrays = read_molecule(mol.ToBinary(0), *_ogb_codes())
    return graph_atom_by_atom(mol) if arrays is None else MoleculeGraph(*arrays)


def graph_atom_by_atom(mol: Any) -> MoleculeGraph:
    """`graph_of_mol` with OGB's functions of an atom and a bond."""
    features = _ogb_features()
    x = [features.atom_to_feature_vector(atom) for atom in mol.GetAtoms()]
    bonds = [features.bond_to_feature_vector(bond) for bond in mol.GetBonds()]
    return MoleculeGraph(
        np.array(x, dtype=np.int64).reshape(-1, 9),
        edges_of_mol(mol),
        np.repeat(np.array(bonds, np.int64).reshape(-1, 3), 2, axis=0),
    )


@functools.cache
def _ogb_codes() -> tuple[np.ndarray, np.ndarray]:
    """OGB's code of each value of RDKit's `ATOM_COLUMNS` and `BOND_COLUMNS`."""
    lists = _ogb_features().allowable_features
    values = [*range(CODES // 2), *range(-CODES // 2, 0)]  # values of a signed byte

    def _row(name: str, enum: Any = None) -> list[int]:
        allowed = lists[f"possible_{name}_list"]
        names = values if enum is None else [str(enum.values.get(i)) for i in values]
        other = len(allowed) - 1 if "misc" in allowed else -1
        return [allowed.index(name) if name in allowed else other for name in names]

    atoms = [_row(name, enum) for name, enum in ATOM_COLUMNS.items()]
    bonds = [
        _row("bond_type", Chem.BondType),
        _row("bond_stereo", Chem.BondStereo),
        _row("is_conjugated"),
    ]
    return np.array(atoms, np.int64), np.array(bonds, np.int64)


def bare_carbons(x: np.ndarray) -> np.ndarray:
    """Whether each atom of OGB's ``x`` is carbon with unpaired electrons and no hydrogen, as
    RDKit reads those of a SMARTS."""
    return (x[:, [0, 4]] == [CARBON, 0]).all(1) & (x[:, 5] > 0)


def lines_about_bare(count: int) -> list[str]:
    """A line about molecules with `bare_carbons`, if there are some."""
    rows = counted(count, "row", "have")
    return [f"{rows} carbon without hydrogens (radicals): are they SMARTS?"] * (
        count > 0
    )


def edges_of_mol(mol: Any) -> np.ndarray:
    """int64 [2, 2 x bonds], both directions of a bond next to each other."""
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return np.stack([edges, edges[:, ::-1]], axis=1).reshape(-1, 2).T


@dataclass(frozen=True)
class OGBFeaturiser:
    """The `Featuriser` of SMILES with OGB's features.

    >>> OGBFeaturiser(canonical=True, largest_fragment=True).name
    'ogb_canonical_largest_fragment'

    Attributes:
        canonical: read the molecule again, see `from_canonical`.
        largest_fragment: keep only the fragment of `choose_fragment`.
        ignore_stereo: leave out marks of stereocentres and double bonds.
        positions: of the ``POSITIONS``. For ``file``, it reads a `MolBlock`, and nodes are the
            block's atoms with hydrogens.
    """

    canonical: bool = False
    largest_fragment: bool = False
    positions: str = "none"
    ignore_stereo: bool = False

    @property
    def name(self) -> str:
        """See `Featuriser`."""
        canonical = "_canonical" * self.canonical
        fragment = "_largest_fragment" * self.largest_fragment
        stereo = "_ignore_stereo" * self.ignore_stereo
        positions = "" if self.positions == "none" else f"_{self.positions}"
        return "ogb" + canonical + fragment + stereo + positions

    @property
    def reads(self) -> type:
        """See `Featuriser`."""
        return MolBlock if self.positions == "file" else str

    @property
    def dims(self) -> Dims:
        """See `Featuriser`."""
        return feature_dims()

    def read(self, source: Source) -> MoleculeGraph:
        """See `Featuriser`."""
        mol = self.mol(source)
        return self.graph(mol)._replace(extras={"mol": mol})

    def graph(self, mol: Any) -> MoleculeGraph:
        """Graph of an RDKit molecule of this featuriser."""
        graph = graph_of_mol(mol)
        if self.positions == "none":
            return graph
        if self.positions == "rdkit":
            return graph._replace(pos=embedded_positions(mol))
        if not mol.GetNumConformers():
            raise ValueError("it has no positions")
        pos = mol.GetConformer().GetPositions()
        numbers = np.array([atom.GetAtomicNum() for atom in mol.GetAtoms()])
        nearest = nearest_distance(numbers, pos)
        return graph._replace(pos=pos, extras={"nearest": nearest})

    def read_row(self, source: Source, scaffold: bool = False) -> MoleculeGraph:
        """The graph of a source; several fragments make a disconnected graph. Its ``extras``
        have the `identity_of` the ``molecule``, its ``identity``, which is that of the
        conformer if it has positions, its ``constitution``, the `molecule_key` without stereo
        marks, its ``parent`` (`parent_key`), whether it has `bare_carbons`, and if asked for
        the Bemis-Murcko ``scaffold`` of the `parent`.
        """
        mol = self.mol_as_written(source)
        identity = identity_of(mol)
        flat = Chem.MolToSmiles(mol, isomericSmiles=False)
        extras: dict[str, Any] = {"molecule": identity, "identity": identity}
        if isinstance(source, MolBlock):  # another conformer is another row
            extras["identity"] = molecule_key(source.text.partition("M  END")[0])
        extras |= {"constitution": molecule_key(flat), "parent": parent_key(mol)}
        if self.canonical:
            mol = from_canonical(mol)
        if scaffold:
            extras["scaffold"] = murcko_scaffold(parent(mol))
        graph = self.graph(mol)
        extras["bare"] = bool(bare_carbons(graph.x).any())
        return graph._replace(extras=graph.extras | extras)

    def read_any(self, smiles: str) -> MoleculeGraph:
        """The graph of a benchmark's SMILES, see `mol_of_any_smiles`."""
        return self.graph(mol_of_any_smiles(smiles))

    def mols(self, source: Source) -> list[Any]:
        """See `Featuriser`."""
        return [self.mol(source)]

    def mol(self, source: Source) -> Any:
        """RDKit molecule; ValueError if RDKit refuses it."""
        mol = self.mol_as_written(source)
        return from_canonical(mol) if self.canonical else mol

    def mol_as_written(self, source: Source) -> Any:
        """`mol`, its atoms in the order of the SMILES or the block."""
        if self.positions == "file":
            return mol_of_block(source)
        smiles = str(source)
        mol = mol_of_smiles(smiles)
        if HEAVY_HYDROGEN.search(smiles):
            mol = without_hydrogens(mol)
        return self.select_fragment(mol)

    def select_fragment(self, mol: Any) -> Any:
        """See `Featuriser`."""
        mol = choose_fragment(mol) if self.largest_fragment else mol
        if self.ignore_stereo:
            mol = Chem.Mol(mol)
            Chem.RemoveStereochemistry(mol)
        return mol

    def category(self, column: int, value: int) -> str:
        """See `Featuriser`."""
        name = [*ATOM_COLUMNS][column]
        found = _ogb_features().allowable_features[f"possible_{name}_list"][value]
        return f"{name} {found}" if column or found == "misc" else symbol_of(found)

    def without_canonical_order(self) -> "OGBFeaturiser":
        """See `Featuriser`."""
        return replace(self, canonical=False)

    def with_all_fragments(self) -> "OGBFeaturiser":
        """See `Featuriser`."""
        return replace(self, largest_fragment=False, ignore_stereo=False)

    def for_smiles(self) -> "OGBFeaturiser":
        """Its form that reads SMILES without positions, atoms in the order of the text."""
        return replace(self, canonical=False, positions="none")


PLAIN = OGBFeaturiser()
PLACED = OGBFeaturiser(positions="file")


def mol_of_any_smiles(smiles: str) -> Any:
    """`mol_of_smiles` that accepts molecules against RDKit's valence rules.

    The rules have become stricter since the benchmarks were made. Today they refuse
    seven molecules of ogbg-molhiv, complexes of Al, B and Ge. Such molecules are parsed
    without these rules; aromaticity, conjugation and rings are perceived as usual.
    """
    try:
        return mol_of_smiles(smiles)
    except ValueError:
        mol = Chem.MolFromSmiles(smiles, sanitize=False)
        if mol is None:
            raise
    return _without_valence_rules(mol)


def _without_valence_rules(mol: Any) -> Any:
    """A molecule that was read without sanitisation, sanitised except for these rules."""
    without_map_numbers(mol).UpdatePropertyCache(strict=False)
    mol = Chem.RemoveHs(mol, sanitize=False)
    everything = Chem.SanitizeFlags.SANITIZE_ALL
    Chem.SanitizeMol(mol, everything ^ Chem.SanitizeFlags.SANITIZE_PROPERTIES)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def _adduct(smiles: str) -> Any:
    """Molecule of a SMILES such as ``CN->[BH3]``; None if RDKit refuses more in it than the
    valence of atoms that dative bonds point to, which it counts with the other bonds.
    """
    mol = Chem.MolFromSmiles(smiles, sanitize=False)
    if mol is None:
        return None
    dative = [b for b in mol.GetBonds() if b.GetBondType() == Chem.BondType.DATIVE]
    acceptors = {bond.GetEndAtomIdx() for bond in dative}
    for problem in Chem.DetectChemistryProblems(mol):
        is_valence = problem.GetType() == "AtomValenceException"
        if not is_valence or problem.GetAtomIdx() not in acceptors:
            return None
    return _without_valence_rules(mol)


def from_canonical(mol: Any) -> Any:
    """The molecule of a molecule's canonical SMILES, or the molecule itself where RDKit
    refuses that SMILES or leaves out atoms.

    OGB's chirality is of the neighbours of an atom in their order, which depends on the
    spelling.
    """
    again = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    same = again is not None and again.GetNumAtoms() == mol.GetNumAtoms()
    return again if same else mol


def choose_fragment(mol: Any) -> Any:
    """The largest organic fragment, without salts and solvents; atoms keep their order.

    RDKit's choice: the organic fragment with most atoms, then the heaviest; an inorganic
    fragment only if none is organic. Charges stay as they are.
    """
    if len(Chem.GetMolFrags(mol)) == 1:
        return mol
    parameters = rdMolStandardize.CleanupParameters()
    parameters.preferOrganic = True
    parent = rdMolStandardize.FragmentParent(mol, parameters, skipStandardize=True)
    Chem.GetSymmSSSR(parent)  # rings are not known yet; scaffolds need them
    return parent


def mol_of_smiles(smiles: str) -> Any:
    """RDKit molecule of a SMILES, a CXSMILES or an InChI, without atom-map numbers; ValueError
    if RDKit refuses it, or text follows it."""
    if not smiles:
        raise ValueError("no SMILES")
    if smiles.startswith("'"):
        raise ValueError("it begins with ', as text in spreadsheets does; remove it")
    if smiles.startswith("InChI="):
        mol = Chem.MolFromInchi(smiles)
    else:
        # RDKit takes text after a blank for the molecule's name: "[Na+] [Cl-]" would be a
        # sodium ion. CXSMILES extensions stand between bars.
        plain, *rest = smiles.split(maxsplit=1) or [""]
        if rest and not rest[0].startswith("|"):
            raise ValueError(f"text after a blank in the SMILES: {rest[0]!r}")
        if plain.replace("->", "").count(">") == 2:
            raise ValueError("it is a reaction, which is not read")
        mol = Chem.MolFromSmiles(smiles)
        if mol is None and rest:  # RDKit knows fewer extensions than programs write
            mol = Chem.MolFromSmiles(plain)
        if mol is None and ("->" in plain or "<-" in plain):
            mol = _adduct(plain)
    if mol is None:
        raise ValueError("RDKit refuses it")
    if MAP_NUMBER.search(smiles):  # hydrogens that had one are atoms until now
        mol = Chem.RemoveHs(without_map_numbers(mol))
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def mol_of_block(source: Source) -> Any:
    """RDKit molecule of a `MolBlock`, at positions in angstrom; ValueError if RDKit refuses it,
    or it is a drawing."""
    if not isinstance(source, MolBlock):
        source = MolBlock.of(source)
    if not source.block:
        raise ValueError(
            "it has no mol block with positions; --positions rdkit makes conformers"
        )
    # A second reading tells why a block was refused.
    mol = source.mol or MolBlock.of(source.text).mol
    if mol is None:
        raise ValueError("RDKit refuses it")
    check_is_spatial(mol, source.block)
    if source.length != 1:
        mol = Chem.Mol(mol)
        conformer = mol.GetConformer()
        conformer.SetPositions(conformer.GetPositions() * source.length)
    return mol


def without_map_numbers(mol: Any) -> Any:
    """The molecule, whose atoms have lost their map numbers: RDKit's canonical order
    depends on them."""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    return mol


def without_hydrogens(mol: Any) -> Any:
    """A molecule without explicit hydrogens as atoms; deuterium and tritium count as
    hydrogen."""
    parameters = Chem.RemoveHsParameters()
    parameters.removeIsotopes = True
    mol = Chem.RemoveHs(mol, parameters)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)  # CHD became CH2
    return mol


def molecule_key(canonical_smiles: str) -> int:
    """Key of a molecule, equal for equal canonical SMILES; below 2**64."""
    digest = hashlib.blake2b(canonical_smiles.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def identity_of(mol: Any) -> int:
    """`molecule_key` of a molecule; a racemate is another molecule than its enantiomers."""
    absolute = Chem.StereoGroupType.STEREO_ABSOLUTE
    if all(group.GetGroupType() == absolute for group in mol.GetStereoGroups()):
        return molecule_key(Chem.MolToSmiles(mol))
    stereo = Chem.CXSmilesFields.CX_ENHANCEDSTEREO
    return molecule_key(Chem.MolToCXSmiles(mol, Chem.SmilesWriteParams(), stereo))


def without_isotopes(mol: Any) -> Any:
    """A copy of a molecule whose atoms have the masses of their elements."""
    mol = Chem.Mol(mol)
    for atom in mol.GetAtoms():
        atom.SetIsotope(0)
    return mol


def parent(mol: Any) -> Any:
    """What a compound has in common with its salts, ions, hydrates and isotopologues: the
    largest organic fragment, neutral where hydrogens make it so, without isotopes and
    stereo marks. A metal is an ion, also where it has bonds to N, O or F."""
    with rdBase.BlockLogs():
        mol = choose_fragment(METALS.Disconnect(mol))
    if mol.GetNumHeavyAtoms() < mol.GetNumAtoms():
        mol = without_hydrogens(mol)
    mol = without_isotopes(mol)
    Chem.RemoveStereochemistry(mol)
    # With force, an acid beside a quaternary nitrogen is equal to its anion.
    with rdBase.BlockLogs():
        rdMolStandardize.Uncharger(True, True).unchargeInPlace(mol)
    Chem.GetSymmSSSR(mol)
    return mol


def parent_key(mol: Any) -> int:
    """Key that molecules with one `parent` share, and tautomers whose hydrogens move between
    hetero atoms."""
    return molecule_key(MolHash(parent(mol), HashFunction.HetAtomTautomer))


def is_molecule(smiles: str) -> bool:
    """Whether `mol_of_any_smiles` reads atoms in a text."""
    try:
        with rdBase.BlockLogs():
            return mol_of_any_smiles(smiles).GetNumAtoms() > 0
    except ValueError:
        return False


def murcko_scaffold(mol: Any, stereo: bool = False) -> str:
    """Bemis-Murcko scaffold, as SMILES, of a molecule whose rings are known; empty without
    rings. The scaffolds of ogbg-molhiv's official split have ``stereo`` marks.

    Equal to RDKit's ``MurckoScaffoldSmiles``, which refuses the valences of molecules
    that were parsed without sanitisation.
    """
    scaffold = Chem.MurckoDecompose(mol)
    scaffold.ClearComputedProps()
    scaffold.UpdatePropertyCache(strict=False)
    Chem.GetSymmSSSR(scaffold)
    return Chem.MolToSmiles(scaffold, isomericSmiles=stereo)


@contextlib.contextmanager
def captured_rdkit_log() -> Iterator[list[str]]:
    """Collect RDKit's messages, without time stamps, instead of printing them."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            """See `logging.Handler`."""
            text = record.getMessage()
            messages.append(text.partition("] ")[2] if text[:1] == "[" else text)

    log = logging.getLogger("rdkit")
    before = log.handlers[:], log.propagate
    status = [line.split(":") for line in rdBase.LogStatus().splitlines()]
    log.handlers = [Collect(logging.ERROR)]
    log.propagate = False
    rdBase.LogToPythonLogger()
    try:
        yield messages
    finally:
        rdBase.LogToCppStreams()  # this switches all on
        for name, state in status:
            if state == "disabled":
                rdBase.DisableLog(name)
        log.handlers, log.propagate = before
