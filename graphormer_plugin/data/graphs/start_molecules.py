"""Which molecules a start was trained on: hashes beside its checkpoint, without structures."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase

from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import PathName, atomic_write
from graphormer_plugin.data.graphs.smiles import METALS, choose_fragment, molecule_key

ENDING = ".seen.npy"
START_HAS_SEEN = "start_has_seen"  # column of `has_seen`
SEEN = ("structure", "label")  # words of seen molecules
BYTES = 5  # of a hash; its last bit is 1 for a molecule with a label


def first_block(mol: Chem.Mol) -> str:
    """First block of the InChIKey, or the canonical SMILES without stereo and isotopes
    if InChI refuses the molecule."""
    return Chem.MolToInchiKey(mol)[:14] or Chem.MolToSmiles(mol, isomericSmiles=False)


def constitution(mol: Chem.Mol) -> str:
    """`first_block` of the largest fragment, bonds to metals broken: the same for all salts,
    ions, isotopologues and stereoisomers."""
    return first_block(choose_fragment(METALS.Disconnect(mol)))


def hashes_of(mols: Sequence[Chem.Mol]) -> NDArray[np.uint64]:
    """Hash of the `constitution` of each molecule, without label."""
    with rdBase.BlockLogs():
        keys = np.fromiter(map(molecule_key, map(constitution, mols)), np.uint64)
    return keys >> np.uint64(64 - 8 * BYTES) & ~np.uint64(1)


def write_seen(path: PathName, mols: Sequence[Chem.Mol], labelled: NDArray) -> None:
    """Write the hashes of training molecules [n], some of which are ``labelled``."""
    found = np.unique(hashes_of(mols) + np.asarray(labelled, np.uint64))
    with atomic_write(path) as file:
        np.save(file, found.astype(">u8")[:, None].view(np.uint8)[:, -BYTES:])


def seen_beside(checkpoint: Path) -> Path | None:
    """File of `write_seen` for a start, where there is one."""
    path = checkpoint.with_suffix(ENDING)
    return path if path.exists() else None


def read_seen(path: Path) -> NDArray[np.uint64]:
    """Hashes of `write_seen`; ValueError for a damaged file."""
    with named_damage(f"{path} is damaged; copy it from the folder of the start"):
        table = np.load(path).astype(np.uint64, casting="safe")
        return table @ 256 ** np.arange(BYTES, dtype=np.uint64)[::-1]


def has_seen(known: NDArray[np.uint64], mols: Sequence[Chem.Mol]) -> NDArray[np.str_]:
    """How a start has seen each molecule [n]: no, structure or label; ``known`` are the hashes of
    its molecules."""
    hashes = hashes_of(mols)
    words = np.where(np.isin(hashes, known), "structure", "no")
    return np.where(np.isin(hashes + np.uint64(1), known), "label", words)


def seen_text(words: Counter[str], total: int, what: str) -> str:
    """How many molecules a start has seen, by the counts of `has_seen`, for people."""
    count = sum(words[word] for word in SEEN)
    return (
        f"{count:,} of {total:,} {what} were training molecules of the start, "
        f"{words['label']:,} with labels: metrics of these flatter"
    )
