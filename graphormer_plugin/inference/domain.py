"""Whether molecules resemble those that a model was trained on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.inference.kernels import Floats, mean_squared_differences

CHUNK = 512  # molecules whose distances are in memory at a time
OUTSIDE = 0.05  # a molecule below this share is called outside of the training set


@dataclass
class Domain:
    """Distances between training molecules in the model's own space.

    The distance of two molecules is the root of the mean squared difference of their
    standardised vectors. A molecule's score is the share of training molecules that lie
    farther from their nearest neighbour in the training set than it does: 0.5 is as
    typical as a training molecule, 0 is farther out than any.

    Attributes:
        nearest: distance of each training molecule to the nearest other one, ascending.
        elements: atomic numbers that occur in training.
        atoms: heavy atoms of the smallest and of the largest training molecule.
    """

    nearest: Floats
    elements: list[int]
    atoms: tuple[int, int]

    @classmethod
    def of(cls, scaled: Floats, mols: list[Any]) -> "Domain":
        """Domain of training molecules.

        Args:
            scaled: their standardised vectors [n, D].
            mols: the molecules (RDKit).
        """
        elements = {atom.GetAtomicNum() for mol in mols for atom in mol.GetAtoms()}
        sizes = [mol.GetNumHeavyAtoms() for mol in mols]
        nearest = nearest_distances(scaled, scaled, others=True)
        return cls(np.sort(nearest), sorted(elements), (min(sizes), max(sizes)))

    def score(self, distances: Floats) -> Floats:
        """Share of training molecules farther out, by distance to the nearest one."""
        below = np.searchsorted(self.nearest, distances, side="left")
        return 1 - below / len(self.nearest)

    def unseen(self, mol: Any) -> tuple[list[int], bool]:
        """Elements of a molecule that training lacks, and whether its size is outside of
        the training molecules' range."""
        numbers = {atom.GetAtomicNum() for atom in mol.GetAtoms()}
        low, high = self.atoms
        outside = not low <= mol.GetNumHeavyAtoms() <= high
        return sorted(numbers - set(self.elements)), outside


def nearest_distances(a: Floats, b: NDArray, others: bool = False) -> Floats:
    """Distance of each row of ``a`` to the nearest of ``b``; with ``others``, where both
    are the same rows, to the nearest other one."""
    found = []
    for start in range(0, len(a), CHUNK):
        squares = mean_squared_differences(a[start : start + CHUNK], b)
        if others:
            rows = np.arange(len(squares))
            squares[rows, start + rows] = np.inf
        found.append(squares.min(1))
    return np.sqrt(np.concatenate([np.empty(0), *found]))
