"""Periodic systems as graphs: elements, tags, and the images of atoms in cells around."""

import itertools
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

# Columns of nodes. Tags: 0 below the surface, 1 surface, 2 adsorbate.
ELEMENT, TAG, IMAGE = range(3)
TAGS = 3
# The elements of OC20 have rows 1 to 56, all others row 57 of a table of 64 rows; row 0 pads.
OC20_ELEMENTS = (1, *range(5, 9), 11, *range(13, 18), *range(19, 35), *range(37, 53))
OC20_ELEMENTS += (55, *range(72, 84))
NODE_DIMS = [64, TAGS, 2]
CUTOFF = 8.0  # of images, in angstrom
ON_FACE = 1e-5  # of a cell's vector
MOST_IMAGES = 1_000_000  # that are looked at, of a system


def counted_atoms(x: Any) -> Any:
    """Where nodes [..., columns], an array or tensor, are atoms above tag 0 and no images: they
    have energies and displacements to learn. Padding has tag 0."""
    return (x[..., TAG] > 0) & (x[..., IMAGE] == 0)


class PeriodicSystem(NamedTuple):
    """Atoms in a periodic cell, in angstrom and eV.

    Attributes:
        pos: float [n, 3].
        cell: float [3, 3], a vector in each row.
        numbers: int [n], atomic numbers.
        tags: int [n], 0 to 2.
        pos_relaxed: float [n, 3]; NaN where unknown.
        energy: of the relaxed system; NaN if unknown.
    """

    pos: np.ndarray
    cell: np.ndarray
    numbers: np.ndarray
    tags: np.ndarray
    pos_relaxed: np.ndarray
    energy: float


def graph_of_system(
    system: PeriodicSystem, every_cell: bool = False
) -> SimpleNamespace:
    """The graph of a system, first its atoms, then images; see `chunks_of_graphs`.

    ``x`` has `ELEMENT`, `TAG` and `IMAGE` in its columns, ``displacement`` the steps up to
    the relaxed positions, 0 of images. ``y`` is the energy. There are no edges.

    Args:
        every_cell: atoms are moved into the cell, so that it is equal which of their copies
            are given; images within `CUTOFF` of any atom, in all cells (our choice). Otherwise
            those of the released Graphormer-3D: atoms of the eight cells around in the
            plane of the first two vectors, less than 8 angstrom from an atom of tag 2,
            and no images of atoms of tag 2.

    Raises:
        ValueError: the vectors of the cell span none, or very small ones.
    """
    pos = system.pos
    tags = system.tags
    vectors = system.cell if every_cell else system.cell[:2]
    if np.linalg.matrix_rank(vectors) < len(vectors):
        raise ValueError(f"vectors {vectors.tolist()} span no cell")
    step = system.pos_relaxed - pos
    if every_cell:
        # An atom on a face stays there, whatever the last bits of its place are.
        parts = pos @ np.linalg.inv(system.cell)
        pos = pos - np.floor(parts + ON_FACE) @ system.cell
    shifts = _shifts(pos, system.cell, every_cell) @ system.cell
    copies = pos + shifts[:, None]  # [cells, n, 3]
    centres = pos if every_cell else pos[tags > 1]
    from scipy.spatial import KDTree  # late: most data have no positions

    near = KDTree(centres).query(copies, distance_upper_bound=CUTOFF)[0] < CUTOFF
    if not every_cell:
        near &= tags != 2
    atom = np.nonzero(near)[1]
    rows = np.full(128, 1 + len(OC20_ELEMENTS))
    rows[list(OC20_ELEMENTS)] = np.arange(1, 1 + len(OC20_ELEMENTS))
    x = np.stack([rows[system.numbers], tags, np.zeros_like(tags)], 1)
    image = x[atom] + [0, 0, 1]
    still = np.zeros((len(atom), 3))
    return SimpleNamespace(
        x=np.concatenate([x, image]),
        edge_index=np.zeros((2, 0), np.int64),
        pos=np.concatenate([pos, copies[near]]),
        displacement=np.concatenate([step, still]),
        y=np.array([system.energy], np.float64),
    )


def _shifts(pos: np.ndarray, cell: np.ndarray, every_cell: bool) -> np.ndarray:
    """Cells with images, in units of the cell's vectors, without the cell itself [cells, 3]."""
    reach = np.array([1, 1, 0])
    if every_cell:
        # Distance between the planes of a cell, and how far the atoms go beyond one cell.
        inverse = np.linalg.inv(cell)
        spread = np.ptp(pos @ inverse, axis=0)
        reach = np.ceil(CUTOFF * np.linalg.norm(inverse, axis=0) + spread)
        if np.prod(2 * reach + 1) * len(pos) > MOST_IMAGES:
            raise ValueError(f"more than {MOST_IMAGES:,} images, the cell is too small")
    cells = itertools.product(
        *(range(-count, count + 1) for count in reach.astype(int))
    )
    return np.array([cell for cell in cells if any(cell)])
