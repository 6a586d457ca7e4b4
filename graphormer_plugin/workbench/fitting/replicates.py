"""Rows of one molecule: equal rows are one measurement, and all are left out together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from graphormer_plugin.data.tables.label_warnings import LABEL_TOLERANCE
from graphormer_plugin.data.tables.labels import label_ends, labels_between
from graphormer_plugin.estimators.domain import DUPLICATE_DISTANCE
from graphormer_plugin.estimators.kernels import Floats, Reference

ROUNDING = 1e-5  # relative difference of descriptors that are equal but for rounding


@dataclass
class Measurements:
    """What is measured of n molecules, or of molecules under n conditions.

    Attributes:
        rows: first row of each among the rows that were given, ascending [n].
        labels: mean of its labels [n, T], NaN where missing.
        weights: sum of their weights, times the share.
        shares: 1 over the rows of the molecule that have the label under the same
            condition [n, T]: one measurement, as a value for both enantiomers.
        counts: number of different labels; a label that is repeated counts once.
        spread: their variance, 0 for one.
        bounds: see `fit_on_features`.
        molecules: number of the molecule's `parent` [n].
        conditions: number of molecule and numbers beside it [n].
    """

    rows: NDArray[np.int64]
    labels: Floats
    weights: Floats
    shares: Floats
    counts: NDArray[np.int64]
    spread: Floats
    bounds: Floats
    molecules: NDArray[np.int64]
    conditions: NDArray[np.int64]


def merge_replicates(
    raw: dict[str, NDArray],
    keys: NDArray[np.uint64],
    labels: Floats,
    weights: Floats,
    bounds: Floats,
) -> Measurements:
    """Join the rows of a molecule whose features are equal but for rounding.

    A row that repeats a label adds nothing, as it is probably a copy. Different labels are
    replicates, whose mean counts. An exact label outweighs bounds, of which the part that all
    share counts; those that share nothing count as labels.

    Args:
        raw: features of the rows by block.
        keys: `parent_key` of each row [n].
        labels, weights, bounds: see `fit_on_features`.
    """
    molecule = _numbers(keys.tolist())
    first = _first_equal(raw, molecule)
    weights = weights.copy()
    labels = labels.copy()
    bounds = bounds.copy()
    counts = (~np.isnan(labels)).astype(np.int64)
    spread = np.zeros(labels.shape)
    arrays = labels, weights, counts, spread, bounds
    for row in np.unique(first[first != np.arange(len(first))]):
        same = np.flatnonzero(first == row)
        for target in range(labels.shape[1]):
            known = same[~np.isnan(labels[same, target])]
            if len(known):
                label = _joined(*(x[known, target] for x in (labels, weights, bounds)))
                for array, value in zip(arrays, label, strict=True):
                    array[row, target] = value
    rows = np.unique(first)
    molecule = molecule[rows]
    conditions = molecule
    if "extra" in raw:
        beside = [row.tobytes() for row in raw["extra"][rows]]
        conditions = _numbers([*zip(molecule.tolist(), beside)])
    labels, weights, *others = (x[rows] for x in arrays)
    shares = _shares(labels, conditions)
    weights = weights * shares
    return Measurements(rows, labels, weights, shares, *others, molecule, conditions)


def _shares(labels: Floats, conditions: NDArray[np.int64]) -> Floats:
    """See `Measurements`."""
    shares = np.ones(labels.shape)
    for column, share in zip(labels.T, shares.T):
        pairs = np.stack([conditions, column.astype(np.float32)], 1)
        found = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        _, group, counts = found
        share[:] = 1 / counts[group.reshape(-1)]
    return shares


def left_out_covariance(root: Floats, groups: NDArray[np.int64]) -> csr_array:
    """Covariance of the errors of labels that are predicted without their group, zero
    between groups [m, m]. Its product with the solution ``alpha`` [m] is these errors.

    The inverse of a partitioned matrix gives both: the errors of a group G have the
    covariance C = (K^-1_GG)^-1 and are C alpha_G, without solving again.

    Args:
        root: columns of the labels [n, m] of the inverse of K's Cholesky factor.
        groups: number of each label's group [m].
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    members = np.split(order, starts)
    blocks = [np.linalg.inv(root[:, at].T @ root[:, at]).ravel() for at in members]
    rows = [np.repeat(at, len(at)) for at in members]
    columns = [np.tile(at, len(at)) for at in members]
    entries = np.concatenate(rows), np.concatenate(columns)
    shape = len(groups), len(groups)
    return csr_array((np.concatenate(blocks), entries), shape)


def _joined(labels: Floats, weights: Floats, bounds: Floats) -> tuple[float, ...]:
    """One label of several [k], k > 0: its value, weight, count, spread and bound."""
    exact = bounds == 0
    if exact.any():
        labels = labels[exact]
        weights = weights[exact]
    else:
        low, high = label_ends(labels, bounds)
        if low.max() < high.min():
            label, bound = labels_between(low.max(), high.min())
            return float(label), weights.max(), 1, 0.0, float(bound)
    order = np.argsort(labels)
    ascending = labels[order]
    apart = np.diff(ascending) > LABEL_TOLERANCE * np.abs(ascending[1:])
    starts = np.flatnonzero(np.concatenate([[True], apart]))
    different = ascending[starts]
    weights = np.maximum.reduceat(weights[order], starts)
    mean = np.average(different, weights=weights)
    spread = np.average((different - mean) ** 2, weights=weights)
    return mean, weights.sum(), len(different), spread, 0


def _first_equal(
    raw: dict[str, NDArray], molecule: NDArray[np.int64]
) -> NDArray[np.int64]:
    """First row of the same molecule with equal features [n]."""
    first = np.arange(len(molecule))
    of_molecule: dict[int, list[int]] = {}
    scaled = Reference("vectors", raw["vectors"]).scaled
    for row, key in enumerate(molecule.tolist()):
        others = of_molecule.setdefault(key, [])
        for other in others:
            if _are_equal(raw, scaled, row, other):
                first[row] = other
                break
        else:
            others.append(row)
    return first


def _are_equal(raw: dict[str, NDArray], scaled: Floats, row: int, other: int) -> bool:
    """Whether two rows have equal features but for rounding."""
    apart = np.mean((scaled[row] - scaled[other]) ** 2) >= DUPLICATE_DISTANCE**2
    return not apart and all(
        np.allclose(values[row], values[other], ROUNDING, 0, equal_nan=True)
        for name, values in raw.items()
        if name != "vectors"
    )


def _numbers(keys: Sequence[object]) -> NDArray[np.int64]:
    """Number of each key, in the order of their first places."""
    number_of = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    return np.array([number_of[key] for key in keys], np.int64)
