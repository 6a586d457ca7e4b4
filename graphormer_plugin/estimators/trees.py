"""Boosted trees on Morgan counts and RDKit's descriptors, as a file of arrays.

LightGBM (Ke et al. 2017) grows them. They are kept and applied as arrays, so that reading
the file runs no code and predictions do not need LightGBM. Like a `GPEstimator`, they lie in
``head.npz`` beside a checkpoint; they read none of its vectors.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.graphs.descriptors import COMPUTED, MORGAN_BITS
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.array_file import write_arrays
from graphormer_plugin.estimators.domain import Domain
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.estimators.prediction import Prediction, expit

TREES = "trees"  # value of ``model`` in the file
VERSION = 1
BLOCKS = ("fingerprint", "descriptors")  # and extra, where it is given
MISSING = -1e30  # in place of NaN; below all features
LEAVES = 31  # most of a tree; their bits fit uint32
SPLIT = np.dtype([("feature", "i4"), ("threshold", "f4"), ("lost", "u4")])
_NUMBERS = ("offset", "scale", "noise")


@dataclass
class TreesEstimator:
    """M members, fitted to different parts of the molecules, with K trees for each of the C
    outputs: targets, or classes of a multiclass target.

    Attributes:
        splits: `SPLIT` of each tree [S, M, C, K]. A molecule whose feature is above the
            threshold loses the leaves of the bits ``lost``; it is in the first leaf that
            it does not lose (QuickScorer, Lucchese et al. 2015).
        leaves: values of the leaves from left to right [S + 1, M, C, K], which a member adds
            up over its trees.
        numbers: per output [C]: the value is ``offset + scale * sum``, the logit of a
            class; ``noise``, the standard deviation of its errors on other molecules.
        typical_extra: means of `extra_columns` over the training molecules.
    """

    targets: TargetSchema
    checkpoint: str
    domain: Domain
    splits: NDArray
    leaves: Floats
    numbers: dict[str, Floats]
    typical_extra: Floats
    extra_columns: Sequence[str] = ()
    vector_width = 0  # it reads no vectors
    layers = 0

    def __str__(self) -> str:
        return f"boosted trees of {len(self.domain.molecules):,} molecules"

    @property
    def known_features(self) -> dict[str, NDArray]:
        """Features by block of a molecule without atoms: those of training are not kept."""
        columns = {"fingerprint": MORGAN_BITS, "descriptors": len(COMPUTED)}
        columns["extra"] = len(self.extra_columns)
        return {name: np.zeros((1, count)) for name, count in columns.items()}

    @property
    def molecule_blocks(self) -> Sequence[str]:
        """Blocks whose features come from molecules."""
        return BLOCKS

    def predict_features(self, raw: Mapping[str, NDArray]) -> Prediction:
        """Predict from features of q molecules by block, see `molecule_features`.

        The spread of a class is that between the members; that of a measured label has
        the noise, too.
        """
        table = feature_table(raw, self.extra_columns)
        numbers = self.numbers
        members = numbers["offset"] + numbers["scale"] * self.sums(table)
        is_number = self.targets.is_number_of_output
        members[..., ~is_number] = expit(members[..., ~is_number])
        for outputs in self.targets.outputs:
            if outputs.stop - outputs.start > 1:  # one class against all others
                members[..., outputs] /= members[..., outputs].sum(-1, keepdims=True)
        std = np.hypot(members.std(1, ddof=1), numbers["noise"])
        in_domain = self.domain.score(domain_vectors(raw["descriptors"]))
        if self.extra_columns:
            in_domain[self.domain.is_beyond(raw["extra"]).any(1)] = 0
        return Prediction(members.mean(1), std, in_domain)

    def sums(self, table: NDArray[np.float32]) -> Floats:
        """Sum of the trees of each member [q, M, C] for features [q, F]."""
        feature, threshold, lost = (
            np.ascontiguousarray(self.splits[name]) for name in SPLIT.names
        )
        sums = np.zeros((len(table), *self.leaves.shape[1:3]))
        for row, sums_of_row in zip(table, sums):
            gone = np.bitwise_or.reduce(lost * (row.take(feature) > threshold))
            leaf = np.bitwise_count(gone ^ (gone + 1)) - 1
            values = np.take_along_axis(self.leaves, leaf[None], 0)
            sums_of_row[:] = values[0].sum(-1)
        return sums

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; a file of that name is replaced."""
        meta, arrays = self.domain.contents()
        meta |= {
            "version": VERSION,
            "model": TREES,
            "checkpoint": self.checkpoint,
            "targets": self.targets.to_dict(),
            "extra_columns": list(self.extra_columns),
        }
        arrays |= {"splits": self.splits, "leaves": self.leaves} | self.numbers
        write_arrays(path, meta, arrays | {"typical_extra": self.typical_extra})

    @classmethod
    def from_contents(
        cls, meta: dict[str, Any], arrays: dict[str, NDArray]
    ) -> "TreesEstimator":
        """Inverse of `save`; ValueError for trees without a leaf for some molecules."""
        splits = arrays["splits"]
        leaves = arrays["leaves"]
        if leaves[1:].shape != splits.shape or (splits["lost"] >> len(splits)).any():
            raise ValueError(f"{leaves.shape} leaves do not fit the splits")
        targets = TargetSchema.of(**meta["targets"])
        numbers = {name: arrays[name] for name in _NUMBERS}
        outputs = {len(x) for x in (leaves[0, 0], *numbers.values())}
        if outputs != {targets.num_outputs}:  # numpy would broadcast them
            raise ValueError(f"outputs {outputs}, expected {targets.num_outputs}")
        return cls(
            targets,
            meta["checkpoint"],
            Domain.from_contents(meta, arrays),
            splits=splits,
            leaves=leaves,
            numbers=numbers,
            typical_extra=arrays["typical_extra"],
            extra_columns=meta["extra_columns"],
        )


def feature_table(
    raw: Mapping[str, NDArray], extra_columns: Sequence[str]
) -> NDArray[np.float32]:
    """Features of all blocks [n, F], `MISSING` where they are missing."""
    blocks = [*BLOCKS, "extra"] if extra_columns else BLOCKS
    parts = [raw[block] for block in blocks]
    table = np.concatenate(parts, 1, dtype=np.float32, casting="unsafe")
    return np.nan_to_num(table, copy=False, nan=MISSING)


def domain_vectors(descriptors: NDArray) -> NDArray[np.float32]:
    """Descriptors as vectors of a `Domain`, 0 where they are missing."""
    return np.nan_to_num(descriptors.astype(np.float32), nan=0.0)
