"""Kernels between molecules over blocks of features: 1 for equal features, down to 0.

Special functions and sparse products are torch's: importing scipy's takes half a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rdkit import Chem

from cython_ext.columns import ranges
from graphormer_plugin.data.graphs.descriptors import morgan_counts, rdkit_descriptors
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.schema import MAX_SCALED

# Kernel of each block of features.
KERNELS = {
    "vectors": "matern52",
    "fingerprint": "tanimoto",
    "descriptors": "rbf",
    "extra": "rbf",  # columns of a table
    "scores": "rbf",  # predictions of a first stage, see `GPEstimator`
}
RANKED = ("descriptors", "extra")  # features that count as normal scores of their ranks
MAX_COUNT = 255  # largest count of a bit of the fingerprint

Floats = NDArray[np.float64]


def molecule_features(block: str, molecules: Sequence[str | Chem.Mol]) -> NDArray:
    """Features that come from molecules alone: ``fingerprint`` uint8 [n, bits] (Morgan
    counts), or ``descriptors`` float32 [n, columns] with NaN. A head also stores ``vectors``
    float32 [n, D], and ``extra`` float64 [n, columns] with NaN."""
    if block == "fingerprint":
        counts = morgan_counts(molecules, parse=as_mol)
        return np.minimum(counts, MAX_COUNT).astype(np.uint8)
    return rounded(rdkit_descriptors(molecules, as_mol))


def rounded(descriptors: Floats) -> NDArray[np.float32]:
    """Descriptors whose equal values have equal ranks.

    RDKit adds up the atoms in their order, so that the last bits of a descriptor depend on
    how its molecule is written.
    """
    return descriptors.astype(np.float32)


def as_mol(molecule: str | Chem.Mol) -> Chem.Mol:
    """RDKit's molecule of a SMILES; a molecule stays."""
    return mol_of_any_smiles(molecule) if isinstance(molecule, str) else molecule


@dataclass
class Reference:
    """Features of the training molecules, against which others are compared."""

    block: str
    raw: NDArray

    def __post_init__(self) -> None:
        if self.block == "fingerprint":
            rows, columns = _unary(self.raw)
            self.columns, indices = np.unique(columns, return_inverse=True)
            self.unary = torch.sparse_coo_tensor(
                np.stack([rows, indices]),
                np.ones(len(rows), np.float32),
                (len(self.raw), len(self.columns)),
                check_invariants=True,
            ).coalesce()
            self.total = self.raw.sum(1, dtype=np.float64)
            return
        if self.block in RANKED:
            self.scores = [mid_ranks(column) for column in self.raw.T]
        else:
            raw = self.raw.astype(np.float64)
            spread = raw.std(0)
            self.mean = raw.mean(0)
            self.spread = np.where(spread > 1e-6 * np.abs(self.mean), spread, 1.0)
        self.scaled = self.scale(self.raw)

    def scale(self, raw: NDArray) -> Floats:
        """Scaled features [n, F].

        Vectors: standardised, cut at +-5. Descriptors and columns: normal scores of the
        mid-ranks among the training molecules, 0 for NaN.
        """
        if self.block in RANKED:
            columns = [
                np.interp(column, *scores) if len(scores[0]) > 1 else 0 * column
                for column, scores in zip(raw.T, self.scores, strict=True)
            ]
            return np.nan_to_num(np.stack(columns, 1), nan=0.0)
        scaled = (raw.astype(np.float64) - self.mean) / self.spread
        return np.clip(scaled, -MAX_SCALED, MAX_SCALED)

    def compare(self, raw: NDArray) -> Floats:
        """Argument of the kernel between molecules and the training molecules [q, n].

        For the fingerprint it is the Tanimoto similarity of counts, the sum of minima over
        the sum of maxima (1 for two empty fingerprints); else the mean squared difference
        of the scaled features.
        """
        if self.block == "fingerprint":
            rows, columns = _unary(raw)
            is_column = np.isin(columns, self.columns)
            other = np.zeros((len(self.columns), len(raw)), np.float32)
            other[
                np.searchsorted(self.columns, columns[is_column]), rows[is_column]
            ] = 1
            product = torch.sparse.mm(self.unary, torch.from_numpy(other))
            shared = product.numpy().T.astype(np.float64)
            union = raw.sum(1, dtype=np.float64)[:, None] + self.total - shared
            return np.divide(shared, union, out=np.ones_like(shared), where=union > 0)
        return mean_squared_differences(self.scale(raw), self.scaled)

    def compare_among(self, raw: NDArray) -> Floats:
        """`compare` between molecules that are not of the training [q, q]."""
        if self.block == "fingerprint":
            return Reference(self.block, raw).compare(raw)
        scaled = self.scale(raw)
        return mean_squared_differences(scaled, scaled)


def mean_squared_differences(a: Floats, b: Floats) -> Floats:
    """[q, n] of [q, F] and [n, F]."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * (a @ b.T)
    return np.maximum(squares, 0, out=squares) / a.shape[1]


def kernel(block: str, compared: Floats, length: float) -> tuple[Floats, Floats | None]:
    """Kernel of a block, and its derivative by the logarithm of its length (None for
    Tanimoto, which has no length); ``compared`` as of `Reference.compare`."""
    name = KERNELS[block]
    if name == "tanimoto":
        return compared, None
    if name == "rbf":
        value = np.exp(-0.5 / length**2 * compared)
        return value, value * compared / length**2
    s = np.sqrt(5 * compared) / length
    decay = np.exp(-s)
    return (1 + s + s * s / 3) * decay, s * s * (1 + s) / 3 * decay


def weighted_sum(
    blocks: Sequence[str],
    compared: Sequence[Floats],
    weights: Sequence[float],
    lengths: Sequence[float],
) -> Floats:
    """Sum of weight x kernel [q, n] over blocks, keys of `KERNELS`, that are ``compared`` by
    `Reference.compare`; a block of weight 0 is not computed."""
    result = np.zeros_like(compared[0])
    for block, matrix, weight, length in zip(
        blocks, compared, weights, lengths, strict=True
    ):
        if weight:
            result += weight * kernel(block, matrix, length)[0]
    return result


def _unary(counts: NDArray) -> tuple[NDArray, NDArray]:
    """Rows and columns of the 1 of a matrix [n, bits x MAX_COUNT]: a bit counted c times
    is c times 1, so that a product of rows is the sum of the minima of their counts."""
    rows, bits = np.nonzero(counts)
    times = counts[rows, bits].astype(np.int64)
    return np.repeat(rows, times), ranges(bits * MAX_COUNT, times)


def mid_ranks(column: Floats) -> tuple[Floats, Floats]:
    """Distinct finite values, and the normal scores of their mid-ranks."""
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    shares = (np.cumsum(counts) - counts / 2) / max(counts.sum(), 1)
    return values, torch.special.ndtri(torch.from_numpy(shares)).numpy()
