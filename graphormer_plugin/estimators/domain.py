"""What is kept of molecules, and whether they resemble the training molecules of a model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem

from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.graphs.conformers import NUM_ELEMENTS, symbol_of
from graphormer_plugin.data.graphs.seen import beyond_name, unseen_line
from graphormer_plugin.data.graphs.smiles import identity_of, parent_key
from graphormer_plugin.estimators.array_file import Contents, reading, write_arrays
from graphormer_plugin.estimators.kernels import (
    Floats,
    Reference,
    as_mol,
    mean_squared_differences,
)
from graphormer_plugin.estimators.prediction import IN_DOMAIN

# Names of the columns of `MoleculeDescription.kinds`: elements, and charges of an atom.
CHARGES = [*range(-8, 0), *range(1, 9)]
KINDS = [*map(symbol_of, range(NUM_ELEMENTS)), *(f"formal_charge {n}" for n in CHARGES)]
VERSION = 1
CHUNK = 512  # molecules whose distances are in memory at a time
NEAR = 64  # nearest molecules that are searched for a label before all are
OUTSIDE_QUANTILE = 0.05  # a molecule with a lower score is outside of the domain
# Keys of `outside_domain`, beside what no training molecule has.
OUTSIDE = "outside"
SIZE = "size"
FITTED = "fitted"
# Distance below which two vectors belong to the same molecule: float32 rounds differently
# from batch to batch.
DUPLICATE_DISTANCE = 1e-4
NO_EXTRA = np.empty((1, 0))  # numbers beside molecules, of a model that reads none
_ARRAYS = ("vectors", "nearest", "molecules", "ranges")  # attributes of `Domain`


@dataclass
class MoleculeDescription:
    """Identity, elements and size of n molecules. RDKit's molecule of a peptide takes a
    thousand times as much memory.

    Attributes:
        identity: `identity_of` [n].
        kinds: whether the molecule has an atom of each of `KINDS` [n, len(KINDS)].
        atoms: number of heavy atoms [n].
        parent: `parent_key` [n]; a head's fit needs it.
    """

    identity: NDArray[np.uint64]
    kinds: NDArray[np.bool_]
    atoms: NDArray[np.int64]
    parent: NDArray[np.uint64] | None = None

    @classmethod
    def of(
        cls, molecules: Sequence[str | Chem.Mol], parents: bool = False
    ) -> "MoleculeDescription":
        """Description of SMILES or RDKit's molecules, with or without `parent`."""
        identity, parent = np.zeros((2, len(molecules)), np.uint64)
        kinds = np.zeros((len(molecules), len(KINDS)), np.bool_)
        atoms = np.zeros(len(molecules), np.int64)
        for row, molecule in enumerate(molecules):  # one at a time in memory
            mol = as_mol(molecule)
            identity[row] = identity_of(mol)
            if parents:
                parent[row] = parent_key(mol)
            for atom in mol.GetAtoms():
                kinds[row, atom.GetAtomicNum()] = True
                if (charge := atom.GetFormalCharge()) in CHARGES:
                    kinds[row, NUM_ELEMENTS + CHARGES.index(charge)] = True
            atoms[row] = mol.GetNumHeavyAtoms()
        return cls(identity, kinds, atoms, parent if parents else None)

    def __len__(self) -> int:
        return len(self.atoms)

    def __getitem__(self, rows: ArrayLike) -> "MoleculeDescription":
        columns = vars(self).values()
        return MoleculeDescription(*(None if x is None else x[rows] for x in columns))


@dataclass
class Domain:
    """Distances between training molecules in the model's own space.

    The distance of two molecules is the root of the mean squared difference of their
    standardised vectors. A molecule's score is the share of training molecules whose
    nearest neighbour in the training set is at least as far away as its own: 0.5 is as
    typical as a training molecule, 0 is farther out than any. Several rows of a molecule do
    not count as neighbours. A number beside the molecule that is outside of the training's
    range makes the score 0. Where targets have labels of different molecules, each target
    has a score of its own, among its molecules.

    Attributes:
        vectors: vectors of the training molecules [n, D].
        nearest: distance of each training molecule to the nearest other molecule,
            ascending; 0 if there is no other. With ``labelled`` [n, T], and inf after the
            molecules with a label.
        kinds: numbers of the `KINDS` of atoms that occur in training.
        atoms: heavy atoms of the smallest and of the largest training molecule.
        labelled: whether a molecule has a label of each target [n, T]; None where all
            targets have labels of the same molecules.
        molecules: `identity_of` of the molecules that the model was fitted to, ascending.
        ranges: least and largest of each number that the model reads beside a molecule
            [K, 2], NaN where all are missing.
    """

    vectors: NDArray[np.float32]
    nearest: Floats
    kinds: list[int]
    atoms: tuple[int, int]
    molecules: NDArray[np.uint64]
    ranges: Floats
    labelled: NDArray[np.bool_] | None = None
    reference: Reference = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.reference = Reference("vectors", self.vectors)

    @classmethod
    def of(
        cls,
        vectors: NDArray,
        description: MoleculeDescription,
        labelled: NDArray[np.bool_] | None = None,
        extra: Floats = NO_EXTRA,
    ) -> "Domain":
        """Domain of n >= 1 training molecules, by their vectors [n, D], by which
        of the labels [n, T] they have, and by the numbers beside these or more molecules
        [k, K]."""
        if labelled is not None and (labelled == labelled[:, :1]).all():
            labelled = None
        vectors = np.asarray(vectors, np.float32)
        scaled = Reference("vectors", vectors).scaled
        nearest = nearest_distances(scaled, scaled, labelled, others=True)
        nearest[np.isinf(nearest)] = 0  # there is no other
        if labelled is not None:
            nearest[~labelled] = np.inf
        return cls(
            vectors,
            np.sort(nearest, 0),
            np.flatnonzero(description.kinds.any(0)).tolist(),
            (int(description.atoms.min()), int(description.atoms.max())),
            np.unique(description.identity),
            np.stack([np.fmin.reduce(extra), np.fmax.reduce(extra)], 1, dtype=float),
            labelled,
        )

    def score(self, vectors: NDArray) -> Floats:
        """Scores of molecules [q], with `labelled` [q, T], by their vectors [q, D]."""
        scaled = self.reference.scale(np.asarray(vectors, np.float32))
        return self.similarity_quantile(
            nearest_distances(scaled, self.reference.scaled, self.labelled)
        )

    def similarity_quantile(self, distances: Floats) -> Floats:
        """Scores of molecules, by their distance to the nearest training molecule, both as
        in `score`; 0 for a target without molecules."""
        distances = np.where(distances < DUPLICATE_DISTANCE, 0.0, distances)
        if self.labelled is None:
            below = np.searchsorted(self.nearest, distances, side="left")
            return 1 - below / len(self.nearest)
        shares = np.zeros(distances.shape)
        for target, count in enumerate(self.labelled.sum(0).tolist()):
            nearest = self.nearest[:count, target]
            of_target = distances[:, target]
            if count:
                shares[:, target] = 1 - np.searchsorted(nearest, of_target) / count
        return shares

    def has_other_size(self, description: MoleculeDescription) -> NDArray[np.bool_]:
        """Whether each molecule [q] is smaller or larger than all training molecules."""
        low, high = self.atoms
        return (description.atoms < low) | (description.atoms > high)

    def is_beyond(self, extra: Floats) -> NDArray[np.bool_]:
        """Whether each number [q, K] is outside of the training's range."""
        low, high = self.ranges.T
        return (extra < low) | (extra > high)

    def contents(self) -> Contents:
        """JSON values and arrays for a file."""
        meta = {"kinds": self.kinds, "atoms": list(self.atoms)}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if self.labelled is not None:
            arrays["labelled"] = self.labelled
        return meta, arrays

    @classmethod
    def from_contents(
        cls, meta: dict[str, Any], arrays: dict[str, NDArray]
    ) -> "Domain":
        """Inverse of `contents`."""
        low, high = meta["atoms"]
        own = {name: arrays[name] for name in _ARRAYS}
        labelled = arrays.get("labelled")  # see `of`
        return cls(kinds=meta["kinds"], atoms=(low, high), labelled=labelled, **own)


def is_fitted(
    domains: Sequence[Domain], description: MoleculeDescription
) -> NDArray[np.bool_]:
    """Whether a model was fitted to each molecule; stereoisomers are other molecules."""
    fitted = [domain.molecules for domain in domains]
    return np.isin(
        description.identity, np.concatenate([np.empty(0, np.uint64), *fitted])
    )


def outside_domain(
    domains: Sequence[Domain],
    description: MoleculeDescription,
    in_domain: Floats,
    columns: Sequence[str],
    extra: Floats,
) -> Counter[str]:
    """Count molecules that models were fitted to, or that are unlike these.

    Args:
        domains: domains of the models; an element, a charge and a size count if none of the models
            has seen them.
        in_domain: their scores, mean over the models; of several targets [q, T] the
            largest counts.
        columns: names of the K numbers ``extra`` [q, K] beside each molecule.

    Returns:
        number of molecules

        - that a model was fitted to (`FITTED`);
        - that are smaller or larger than all training molecules (`SIZE`);
        - that have an unseen element or charge (its name in `KINDS`);
        - that have a number outside of the range of all models (its `beyond_name`);
        - whose score is below `OUTSIDE_QUANTILE` for another reason (`OUTSIDE`).
    """
    far = in_domain < OUTSIDE_QUANTILE
    far = far if far.ndim == 1 else far.all(1)
    counts: Counter[str] = Counter()
    beyond = np.all([domain.is_beyond(extra) for domain in domains], 0)
    far &= ~beyond.any(1)
    for index in np.flatnonzero(beyond.any(0)).tolist():
        ends = np.array([domain.ranges[index] for domain in domains])
        name = beyond_name(columns[index], ends[:, 0].min(), ends[:, 1].max())
        counts[name] = int(beyond[:, index].sum())
    counts[OUTSIDE] = int(far.sum())
    counts[FITTED] = int(is_fitted(domains, description).sum())
    counts[SIZE] = int(
        np.all([d.has_other_size(description) for d in domains], 0).sum()
    )
    seen = sorted({kind for domain in domains for kind in domain.kinds})
    of_kinds = description.kinds.sum(0)
    of_kinds[seen] = 0
    for kind in np.flatnonzero(of_kinds).tolist():
        counts[KINDS[kind]] = int(of_kinds[kind])
    return counts


def domain_warnings(
    counts: Counter[str], domains: Sequence[Domain], rows: int
) -> list[str]:
    """One line for each kind of molecules in the counts of `outside_domain` of ``rows``."""
    lines = []
    if counts[FITTED]:
        lines.append(
            f"the model was fitted to the molecules of {counts[FITTED]:,} of "
            f"{counted(rows, 'row')}: their errors are smaller than those of new molecules"
        )
    known = (OUTSIDE, SIZE, FITTED)
    unseen = {name: count for name, count in counts.items() if name not in known}
    if line := unseen_line(Counter(unseen)):
        lines.append(line)
    if counts[SIZE]:
        low = min(domain.atoms[0] for domain in domains)
        high = max(domain.atoms[1] for domain in domains)
        lines.append(
            f"{counted(counts[SIZE], 'molecule')} smaller or larger than all training "
            f"molecules, which have {low} to {high} heavy atoms"
        )
    if counts[OUTSIDE]:
        lines.append(
            f"{counted(counts[OUTSIDE], 'molecule')} with {IN_DOMAIN} < "
            f"{OUTSIDE_QUANTILE}: farther from the training molecules than "
            f"{1 - OUTSIDE_QUANTILE:.0%} of these from each other"
        )
    return lines


def nearest_distances(
    a: Floats,
    b: Floats,
    labelled: NDArray[np.bool_] | None = None,
    others: bool = False,
) -> Floats:
    """Distance of each row of ``a`` to the nearest of ``b``, or [q, T] to the nearest that
    is ``labelled`` [n, T]; with ``others`` to the nearest that is at
    least `DUPLICATE_DISTANCE` away, inf if there is none."""
    parts = [np.empty((0, *(() if labelled is None else labelled.shape[1:])))]
    for start in range(0, len(a), CHUNK):
        squares = mean_squared_differences(a[start : start + CHUNK], b)
        if others:
            squares[squares < DUPLICATE_DISTANCE**2] = np.inf
        parts.append(nearest_of(squares, labelled))
    return np.sqrt(np.concatenate(parts))


def nearest_of(squares: Floats, labelled: NDArray[np.bool_] | None) -> Floats:
    """Least squares [q] of [q, n], or [q, T] of the columns that are ``labelled`` [n, T]."""
    if labelled is None:
        return squares.min(1)
    patterns, of_target = np.unique(labelled, axis=1, return_inverse=True)
    least = min(NEAR, squares.shape[1]) - 1
    near = np.argpartition(squares, least, 1)[:, :NEAR]
    order = np.take_along_axis(squares, near, 1).argsort(1)
    near = np.take_along_axis(near, order, 1)
    is_labelled = patterns[near]  # [q, NEAR, P]
    first = np.take_along_axis(near, is_labelled.argmax(1), 1)
    result = np.take_along_axis(squares, first, 1)
    lacking = ~is_labelled.any(1)
    for pattern in np.flatnonzero(lacking.any(0)):
        rows = lacking[:, pattern]
        far = squares[np.ix_(rows, patterns[:, pattern])]
        result[rows, pattern] = far.min(1, initial=np.inf)
    return result[:, of_target.reshape(-1)]


def most_similar(
    counts: NDArray, training: NDArray, most: int
) -> list[tuple[int, float]]:
    """The training molecules that are most like a molecule, and their Tanimoto
    similarities to it, by Morgan counts [bits] and [n, bits]; the first of equal ones first.
    """
    (similar,) = Reference("fingerprint", training).compare(counts[None])
    order = np.argsort(-similar, kind="stable")[:most]
    return [(int(index), float(similar[index])) for index in order]


def domain_file(checkpoint: PathName) -> Path:
    """Where the domain of a checkpoint without a head lies."""
    return Path(checkpoint).with_suffix(".domain.npz")


def save_domain(domain: Domain, path: PathName, checkpoint: str) -> None:
    """Write the domain of a checkpoint's last layer; ``checkpoint`` is its
    `weights_digest`."""
    meta, arrays = domain.contents()
    write_arrays(path, {"version": VERSION, "checkpoint": checkpoint, **meta}, arrays)


def read_domain(path: PathName, checkpoint: str | None = None) -> Domain:
    """Read a domain; for ``checkpoint`` and errors see `reading`."""
    with reading(path, "domain of a checkpoint", VERSION, checkpoint) as contents:
        return Domain.from_contents(*contents)
