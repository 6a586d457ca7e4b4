"""Sources: what a row of a table, or a user, gives as a molecule. A SMILES is a plain text."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.graphs.chunk import MoleculeGraph
from graphormer_plugin.data.graphs.conformers import ADSORBATE_LIKE, symbol_of


@dataclass(frozen=True)
class Unreadable:
    """A row without a molecule, and the reason."""

    reason: str

    @property
    def text(self) -> str:
        """See `text_of`."""
        return self.reason

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, eq=False)
class MolBlock:
    """A mol block with positions.

    Attributes:
        block: its lines without the title.
        mol: RDKit's molecule, with its conformer and all hydrogens that it has; None where
            RDKit refuses it.
        length: unit of its positions in angstrom.
    """

    smiles: str
    block: str
    mol: Any
    length: float = 1.0

    @classmethod
    def of(cls, text: str, length: float = 1.0) -> "MolBlock":
        """The source of a `text`, whose block may be empty."""
        smiles, _, block = text.partition("\n")
        mol = Chem.MolFromMolBlock("\n" + block, removeHs=False) if block else None
        return cls(smiles, block, mol, length)

    @property
    def text(self) -> str:
        """The SMILES above the block, as a cell of a table has them."""
        return f"{self.smiles}\n{self.block}"

    def __str__(self) -> str:
        return self.smiles


@dataclass(frozen=True, eq=False)
class Atoms:
    """Atoms without bonds.

    Attributes:
        x: atomic number and tag of each [n, 2].
        pos: positions in angstrom [n, 3].
        forces: forces on them [n, 3].
    """

    x: np.ndarray
    pos: np.ndarray
    forces: np.ndarray | None = None

    @property
    def text(self) -> str:
        """See `text_of`; the forces are labels."""
        return f"{self.x.tolist()} {self.pos.tolist()}"

    @classmethod
    def of(
        cls,
        numbers: np.ndarray,
        pos: np.ndarray,
        tags: np.ndarray | None = None,
        forces: np.ndarray | None = None,
    ) -> "Atoms":
        """Atoms by their numbers and, where they have them, tags [n]."""
        tags = np.full(len(numbers), ADSORBATE_LIKE) if tags is None else tags
        return cls(np.stack([numbers, tags], 1), pos, forces)

    def __str__(self) -> str:
        elements, counts = np.unique(self.x[:, 0], return_counts=True)
        parts = sorted(zip(map(symbol_of, elements.tolist()), counts.tolist()))
        return "".join(f"{name}{count if count > 1 else ''}" for name, count in parts)


# A SMILES is a text; each type is read by featurisers of their own.
Source = str | Unreadable | MolBlock | Atoms
FORMATS = {
    str: "SMILES",
    MolBlock: "mol blocks with positions",
    Atoms: "atoms",
    MoleculeGraph: "graphs",
}


def text_of(source: Source) -> str:
    """A text that tells sources of one type apart, up to their labels and units."""
    return source if isinstance(source, str) else source.text


@runtime_checkable
class _Graph(Protocol):
    """PyG's ``Data``, a `MoleculeGraph`, or another object with edges."""

    edge_index: Any


class InputKind(StrEnum):
    """What a Python object is, see `input_kind`."""

    SMILES = "SMILES"
    BLOCK = "mol block"
    ATOMS = "atoms"
    ASE = "ASE's atoms"
    MOLECULE = "molecule"
    GRAPH = "graph"
    PATH = "path"
    OTHER = "input"


def input_kind(item: Any) -> InputKind:
    """What a Python object is: a source, ASE's ``Atoms``, RDKit's ``Mol``, a graph of any
    library, a path, or something else."""
    kinds = {
        str: InputKind.SMILES,
        MolBlock: InputKind.BLOCK,
        Atoms: InputKind.ATOMS,
        Chem.Mol: InputKind.MOLECULE,
        Path: InputKind.PATH,
        _Graph: InputKind.GRAPH,
    }
    if ase := sys.modules.get("ase"):  # else nobody can have made any
        kinds[ase.Atoms] = InputKind.ASE
    found = (kind for of, kind in kinds.items() if isinstance(item, of))
    return next(found, InputKind.OTHER)
