"""Whether molecules resemble those that a model was trained on."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from graphormer_plugin.inference.array_file import (
    ArrayReader,
    check_owner,
    reading,
    write_arrays,
)
from graphormer_plugin.inference.columns import IN_DOMAIN
from graphormer_plugin.inference.kernels import (
    Floats,
    Reference,
    mean_squared_differences,
)

VERSION = 1
CHUNK = 512  # molecules whose distances are in memory at a time
OUTSIDE = 0.05  # a molecule below this share is called outside of the training set
FAR, SIZE = "far", "size"  # of `unlike_training`, beside symbols of elements
# Distance below which two vectors are those of one molecule: float32 rounds differently
# from batch to batch.
SAME = 1e-4


@dataclass
class Domain:
    """Distances between training molecules in the model's own space.

    The distance of two molecules is the root of the mean squared difference of their
    standardised vectors. A molecule's score is the share of training molecules whose
    nearest neighbour in the training set is at least as far away as its own: 0.5 is as
    typical as a training molecule, 0 is farther out than any. A molecule may have several
    rows, which are no neighbours of each other.

    Attributes:
        vectors: of the training molecules [n, D].
        nearest: distance of each training molecule to the nearest other one, ascending;
            0 if there is no other.
        elements: atomic numbers that occur in training.
        atoms: heavy atoms of the smallest and of the largest training molecule.
    """

    vectors: NDArray[np.float32]
    nearest: Floats
    elements: list[int]
    atoms: tuple[int, int]
    reference: Reference = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.reference = Reference("vectors", self.vectors)

    @classmethod
    def of(cls, vectors: NDArray, mols: Sequence[Any]) -> "Domain":
        """Domain of training molecules.

        Args:
            vectors: of the molecules [n, D], n >= 1.
            mols: the molecules (RDKit).
        """
        elements = {atom.GetAtomicNum() for mol in mols for atom in mol.GetAtoms()}
        sizes = [mol.GetNumHeavyAtoms() for mol in mols]
        vectors = np.asarray(vectors, np.float32)
        scaled = Reference("vectors", vectors).scaled
        nearest = np.sort(nearest_distances(scaled, scaled, others=True))
        nearest[np.isinf(nearest)] = 0  # all of them
        return cls(vectors, nearest, sorted(elements), (min(sizes), max(sizes)))

    def score(self, vectors: NDArray) -> Floats:
        """Scores of molecules [q], by their vectors [q, D]."""
        scaled = self.reference.scale(np.asarray(vectors, np.float32))
        return self.share(nearest_distances(scaled, self.reference.scaled))

    def share(self, distances: Floats) -> Floats:
        """Scores of molecules [q], by their distance to the nearest training molecule."""
        distances = np.where(distances < SAME, 0.0, distances)
        below = np.searchsorted(self.nearest, distances, side="left")
        return 1 - below / len(self.nearest)

    def unseen(self, mol: Any) -> tuple[list[int], bool]:
        """Elements of a molecule that training lacks, and whether its size is outside of
        the training molecules' range."""
        numbers = {atom.GetAtomicNum() for atom in mol.GetAtoms()}
        low, high = self.atoms
        outside = not low <= mol.GetNumHeavyAtoms() <= high
        return sorted(numbers - set(self.elements)), outside

    def meta(self) -> dict[str, Any]:
        """JSON values for a file."""
        return {"elements": self.elements, "atoms": list(self.atoms)}

    def arrays(self) -> dict[str, NDArray]:
        """Arrays for a file."""
        return {"vectors": self.vectors, "nearest": self.nearest}

    @classmethod
    def taken(cls, reader: ArrayReader, rows: int | None = None) -> "Domain":
        """The domain in a file, with that number of training molecules.

        Raises:
            KeyError, ValueError, TypeError: it is missing or wrong.
        """
        vectors = reader.take("vectors", (rows, None))
        if min(vectors.shape) < 1:
            raise ValueError(f"vectors have shape {vectors.shape}")
        low, high = (int(size) for size in reader.meta["atoms"])
        return cls(
            vectors,
            np.sort(reader.take("nearest", (len(vectors),), 0)),
            [int(number) for number in reader.meta["elements"]],
            (low, high),
        )


def unlike_training(
    domains: Sequence[Domain], mols: Sequence[Chem.Mol], in_domain: Floats
) -> Counter[str]:
    """Count molecules that are unlike those of the training.

    Args:
        domains: of the models; an element and a size count if none of the models has
            seen them.
        mols: the molecules.
        in_domain: their scores, mean over the models.

    Returns:
        Molecules whose score is below `OUTSIDE` (`FAR`), that are smaller or larger than
        all of the training (`SIZE`), and that have an unseen element, by its symbol.
    """
    symbol = Chem.GetPeriodicTable().GetElementSymbol
    counts = Counter({FAR: int((in_domain < OUTSIDE).sum())})
    for mol in mols:
        found = [domain.unseen(mol) for domain in domains]
        elements = set.intersection(*({*numbers} for numbers, _ in found))
        counts.update(symbol(number) for number in sorted(elements))
        counts[SIZE] += all(outside for _, outside in found)
    return counts


def unlike_warnings(counts: Counter[str], domains: Sequence[Domain]) -> list[str]:
    """One line for each kind of molecules that are unlike those of the training.

    Args:
        counts: sum over all molecules, see `unlike_training`.
        domains: of the models.
    """
    lines = []
    elements = [
        f"{symbol} (in {_molecules(count)})"
        for symbol, count in counts.most_common()
        if symbol not in (FAR, SIZE)
    ]
    if elements:
        lines.append(f"no training molecule has {', '.join(elements)}")
    if counts[SIZE]:
        low = min(domain.atoms[0] for domain in domains)
        high = max(domain.atoms[1] for domain in domains)
        lines.append(
            f"{_molecules(counts[SIZE])} smaller or larger than all training molecules, "
            f"which have {low} to {high} heavy atoms"
        )
    if counts[FAR]:
        lines.append(
            f"{_molecules(counts[FAR])} with {IN_DOMAIN} < {OUTSIDE}: farther from the "
            f"training molecules than {1 - OUTSIDE:.0%} of these from each other"
        )
    return lines


def _molecules(count: int) -> str:
    return f"{count:,} molecule{'s' * (count > 1)}"


def nearest_distances(a: Floats, b: Floats, others: bool = False) -> Floats:
    """Distance of each row of ``a`` to the nearest of ``b``; with ``others`` to the
    nearest one that is not the `SAME`, inf if there is none."""
    found = []
    for start in range(0, len(a), CHUNK):
        squares = mean_squared_differences(a[start : start + CHUNK], b)
        if others:
            squares[squares < SAME**2] = np.inf
        found.append(squares.min(1))
    return np.sqrt(np.concatenate([np.empty(0), *found]))


def domain_file(checkpoint: str | os.PathLike[str]) -> Path:
    """Where the domain of a checkpoint without a head lies."""
    return Path(checkpoint).with_suffix(".domain.npz")


def save_domain(domain: Domain, path: str | os.PathLike[str], checkpoint: str) -> None:
    """Write a domain.

    Args:
        domain: of the checkpoint's last layer.
        path: of the file; see `domain_file`.
        checkpoint: `weights_digest` of the checkpoint.
    """
    meta = {"version": VERSION, "checkpoint": checkpoint, **domain.meta()}
    write_arrays(path, meta, domain.arrays())


def read_domain(path: str | os.PathLike[str], checkpoint: str | None = None) -> Domain:
    """Read a domain.

    Args:
        path: of the file.
        checkpoint: `weights_digest` that it must name; None: any.

    Raises:
        OSError: there is no such file.
        ValueError: it is damaged, or belongs to another checkpoint.
    """
    with reading(path, "domain of a checkpoint") as reader:
        if reader.meta["version"] != VERSION:
            raise ValueError(f"version {reader.meta['version']}, expected {VERSION}")
        domain, owner = Domain.taken(reader), reader.meta["checkpoint"]
    check_owner(path, owner, checkpoint)
    return domain
