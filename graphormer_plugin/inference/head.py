"""A kernel machine on frozen vectors of a checkpoint, as a file of arrays beside it.

For each target the prediction is ``offset + scale * k(x, X) @ dual``. X are the training
molecules, and k is the sum of weight x kernel over blocks of features: the checkpoint's
vectors, Morgan counts, RDKit's descriptors (see `kernels`). A Gaussian process gives a
variance too, and a target of classes a probability.

The file ``head.npz`` holds arrays only, and reading it runs no code. It names the weights
that its vectors come from; a head beside another checkpoint is refused.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from graphormer_plugin.data.descriptors import MORGAN_BITS
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.inference.domain import Domain, nearest_distances
from graphormer_plugin.inference.kernels import (
    KERNELS,
    Floats,
    Reference,
    raw_features,
    weighted_sum,
)

HEAD_FILE = "head.npz"
VERSION = 1
QUERY_ROWS = 512  # molecules whose kernels are in memory at a time
# Gauss-Hermite quadrature over a standard normal variable.
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(16)
_SHARES /= _SHARES.sum()
# Numbers of each target, by array: the least and the greatest value.
_NUMBERS = {
    "offset": (-np.inf, np.inf),
    "scale": (0, np.inf),
    "noise": (0, np.inf),
    "spread_scale": (0, np.inf),
    "slope": (0, np.inf),
    "intercept": (-np.inf, np.inf),
}


class HeadPrediction(NamedTuple):
    """What a head says about molecules.

    Attributes:
        values: [q, T], in the targets' unit, or probabilities.
        std: [q, T], standard deviation of a measured label; for classes that of the
            probability, whose logit is normal.
        in_domain: [q], see `Domain`.
    """

    values: Floats
    std: Floats
    in_domain: Floats


@dataclass
class Head:
    """Kernel machines, one per target.

    Attributes:
        targets: T names with their kind and unit.
        checkpoint: `weights_digest` of the checkpoint.
        layers: last layers whose vectors are concatenated.
        blocks: B keys of `KERNELS` that the kernel sums over.
        raw: features of the n training molecules by block, see `raw_features`; always
            has ``vectors``.
        domain: of the training molecules.
        weights: [T, B] weight of each block.
        lengths: [T, B] length of its kernel.
        numbers: per target [T]: ``offset`` and ``scale`` of its labels; ``noise``, the
            variance of the noise over scale^2; ``spread_scale``, the calibration of the
            spread; ``slope`` and ``intercept`` of the probability's logit.
        dual: [n, T], 0 for a molecule without label.
        spread_rows: training molecules that a variance is computed with [m].
        spread_factor: W [m, r]: the variance is k(x, x) - |k(x, X_m) W|^2.
        spread_of_target: [T], which of these.
    """

    targets: TargetSchema
    checkpoint: str
    layers: int
    blocks: list[str]
    raw: dict[str, NDArray]
    domain: Domain
    weights: Floats
    lengths: Floats
    numbers: dict[str, Floats]
    dual: Floats
    spread_rows: list[NDArray[np.int64]]
    spread_factor: list[Floats]
    spread_of_target: NDArray[np.int64]
    references: dict[str, Reference] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {*self.blocks, "vectors"}
        self.references = {name: Reference(name, self.raw[name]) for name in names}

    def __len__(self) -> int:
        """Number of training molecules."""
        return len(self.dual)

    def __str__(self) -> str:
        return (
            f"Gaussian process on {' + '.join(self.blocks)} of {len(self):,} molecules"
        )

    @property
    def needs_smiles(self) -> bool:
        """Whether vectors alone are not enough."""
        return self.blocks != ["vectors"]

    def predict(self, vectors: NDArray, smiles: Sequence[str] = ()) -> HeadPrediction:
        """Predict for molecules.

        Args:
            vectors: [q, D] of the checkpoint, from its last `layers`.
            smiles: the molecules; only for `needs_smiles`.

        Raises:
            ValueError: RDKit refuses a molecule.
        """
        parts = [self._latent(*part) for part in self._pieces(vectors, smiles)]
        mean, variance, in_domain = map(np.concatenate, zip(*parts, strict=True))
        numbers = self.numbers
        if self.targets.kind == "binary":
            spread = np.sqrt(variance) * numbers["spread_scale"]
            latent = mean[..., None] + spread[..., None] * _NODES
            samples = expit(
                numbers["slope"][:, None] * latent + numbers["intercept"][:, None]
            )
            centred = samples - (samples @ _SHARES)[..., None]
            values = expit(numbers["slope"] * mean + numbers["intercept"])
            return HeadPrediction(values, np.sqrt(centred**2 @ _SHARES), in_domain)
        std = np.sqrt(variance + numbers["noise"]) * numbers["spread_scale"]
        values = numbers["offset"] + numbers["scale"] * mean
        return HeadPrediction(values, numbers["scale"] * std, in_domain)

    def latent(self, vectors: NDArray, smiles: Sequence[str] = ()) -> Floats:
        """Means of the standardised labels [q, T], before they become probabilities."""
        parts = [self._latent(*part)[0] for part in self._pieces(vectors, smiles)]
        return np.concatenate(parts)

    def _pieces(self, vectors: NDArray, smiles: Sequence[str]) -> Any:
        if self.needs_smiles and len(smiles) != len(vectors):
            raise ValueError(
                f"the head reads {' and '.join(self.blocks)}, so it needs SMILES"
            )
        width = self.raw["vectors"].shape[1]
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise ValueError(
                f"vectors have shape {list(vectors.shape)}, expected [q, {width}]"
            )
        starts = range(0, max(len(vectors), 1), QUERY_ROWS)
        for start in starts:
            part = slice(start, start + QUERY_ROWS)
            yield vectors[part], smiles[part]

    def _latent(
        self, vectors: NDArray, smiles: Sequence[str]
    ) -> tuple[Floats, Floats, Floats]:
        """Mean and variance of the standardised latent values [q, T], and the score of
        the domain [q]."""
        own = self.references["vectors"]
        scaled = own.scale(np.asarray(vectors, np.float32))
        in_domain = self.domain.score(nearest_distances(scaled, own.scaled))
        compared = [
            self.references[block].compare(raw_features(block, vectors, smiles))
            for block in self.blocks
        ]
        mean = np.zeros((len(vectors), len(self.targets.names)))
        variance = np.zeros_like(mean)
        kernels = np.concatenate([self.weights, self.lengths], 1)
        _, group_of_target = np.unique(kernels, axis=0, return_inverse=True)
        for group in range(group_of_target.max() + 1):
            members = np.flatnonzero(group_of_target.reshape(-1) == group)
            weights, lengths = self.weights[members[0]], self.lengths[members[0]]
            similar = weighted_sum(self.blocks, compared, weights, lengths)
            mean[:, members] = similar @ self.dual[:, members]
            for spread in np.unique(self.spread_of_target[members]):
                projected = (
                    similar[:, self.spread_rows[spread]] @ self.spread_factor[spread]
                )
                left = weights.sum() - (projected**2).sum(1)
                chosen = members[self.spread_of_target[members] == spread]
                variance[:, chosen] = np.maximum(left, 0)[:, None]
        return mean, variance, in_domain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; one of that name is replaced."""
        meta = {
            "version": VERSION,
            "checkpoint": self.checkpoint,
            "layers": self.layers,
            "blocks": self.blocks,
            "targets": self.targets.to_dict(),
            "elements": self.domain.elements,
            "atoms": list(self.domain.atoms),
        }
        arrays = {
            "meta": np.array(json.dumps(meta)),
            "weights": self.weights,
            "lengths": self.lengths,
            "dual": self.dual,
            "nearest": self.domain.nearest,
            "spread_of_target": self.spread_of_target,
            **self.numbers,
            **{f"raw_{name}": raw for name, raw in self.raw.items()},
        }
        for number, rows in enumerate(self.spread_rows):
            arrays[f"spread_rows_{number}"] = rows
            arrays[f"spread_factor_{number}"] = self.spread_factor[number]
        if "raw_fingerprint" in arrays:
            counts = arrays.pop("raw_fingerprint")
            arrays["bits_shape"] = np.array(counts.shape)
            arrays["bits_at"] = np.flatnonzero(counts)
            arrays["bits_count"] = counts.reshape(-1)[arrays["bits_at"]]
        with atomic_write(path) as file:
            np.savez(file, **arrays)


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Digest of a checkpoint's weights; converting or slimming the file keeps it."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {list(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def read_head(path: str | os.PathLike[str], checkpoint: str | None = None) -> Head:
    """Read a head.

    Args:
        path: the file.
        checkpoint: `weights_digest` of the checkpoint that it must belong to; None does
            not check.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a head, damaged, or belongs to another checkpoint.
    """
    try:
        head = _head_of(_arrays(Path(path)))
    except (
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        MemoryError,
        zipfile.BadZipFile,
    ) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is not a head, or damaged: {reason}") from None
    if checkpoint is not None and head.checkpoint != checkpoint:
        raise ValueError(
            f"{path} belongs to another checkpoint than the one beside it; fit it again, "
            "or put it beside its own"
        )
    return head


def _arrays(path: Path) -> dict[str, NDArray]:
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        if any(entry.compress_type for entry in archive.infolist()):
            raise ValueError("it was packed again with compression")
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as entry:
                array = np.lib.format.read_array(entry, allow_pickle=False)
            arrays[name.removesuffix(".npy")] = array
    return arrays


def _head_of(arrays: dict[str, NDArray]) -> Head:
    """Check arrays and make a head of them.

    Raises:
        ValueError, KeyError, TypeError: one is missing or wrong.
    """
    meta = json.loads(str(arrays.pop("meta")))
    if meta["version"] != VERSION:
        raise ValueError(f"version {meta['version']}, expected {VERSION}")
    targets = TargetSchema.from_dict(meta["targets"])
    blocks, digest, layers = meta["blocks"], meta["checkpoint"], meta["layers"]
    if not blocks or len({*blocks}) != len(blocks) or not {*blocks} <= {*KERNELS}:
        raise ValueError(f"blocks {blocks}, expected some of {', '.join(KERNELS)}")
    if targets.kind == "multiclass" or targets.level != "graph" or not targets.names:
        raise ValueError(f"targets of kind {targets.kind}, level {targets.level}")
    if not isinstance(digest, str) or not isinstance(layers, int) or layers < 1:
        raise ValueError("no checkpoint or layers")
    if "bits_shape" in arrays:
        arrays["raw_fingerprint"] = _dense_counts(
            *(arrays.pop(f"bits_{name}") for name in ("shape", "at", "count"))
        )
    count, dual = len(targets.names), arrays["dual"]
    rows = len(dual)
    if not rows:
        raise ValueError("no training molecules")
    check = _Checker(arrays)
    low, high = (int(size) for size in meta["atoms"])
    numbers = {
        name: check(name, (count,), *limits) for name, limits in _NUMBERS.items()
    }
    spread_of_target = check("spread_of_target", (count,), 0, kind="i")
    spreads = range(int(spread_of_target.max()) + 1)
    spread_rows = [
        check(f"spread_rows_{number}", (None,), 0, rows - 1, "i") for number in spreads
    ]
    raw = {
        name: check(f"raw_{name}", (rows, None), kind="fu", finite=name == "vectors")
        for name in sorted({*blocks, "vectors"})
    }
    head = Head(
        targets,
        digest,
        layers,
        list(blocks),
        raw,
        Domain(
            np.sort(check("nearest", (rows,), 0)),
            [int(number) for number in meta["elements"]],
            (low, high),
        ),
        check("weights", (count, len(blocks)), 0),
        check("lengths", (count, len(blocks)), np.finfo(np.float64).tiny),
        numbers,
        check("dual", (rows, count)),
        spread_rows,
        [
            check(f"spread_factor_{number}", (len(spread_rows[number]), None))
            for number in spreads
        ],
        spread_of_target,
    )
    if arrays:
        raise ValueError(f"unknown array {min(arrays)}")
    return head


class _Checker:
    """Takes arrays out of a dict one by one, and checks each."""

    def __init__(self, arrays: dict[str, NDArray]) -> None:
        self.arrays = arrays

    def __call__(
        self,
        name: str,
        shape: tuple[int | None, ...],
        low: float = -np.inf,
        high: float = np.inf,
        kind: str = "f",
        finite: bool = True,
    ) -> NDArray:
        """An array; raises ValueError unless its shape (None: any), kind and range fit."""
        array = self.arrays.pop(name)
        fits = array.ndim == len(shape) and all(
            size in (None, found) for size, found in zip(shape, array.shape)
        )
        if not fits or array.dtype.kind not in kind:
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
        if finite and not (np.isfinite(array) & (array >= low) & (array <= high)).all():
            raise ValueError(f"{name} has a value outside {low} to {high}")
        return array


def _dense_counts(shape: NDArray, at: NDArray, count: NDArray) -> NDArray:
    rows, bits = (int(size) for size in shape)
    if count.dtype != np.uint8 or bits != MORGAN_BITS:
        raise ValueError(f"fingerprints of {bits} bits, counts of type {count.dtype}")
    dense = np.zeros(rows * bits, np.uint8)
    if (
        at.min(initial=0) < 0
        or at.max(initial=0) >= len(dense)
        or len(at) != len(count)
    ):
        raise ValueError("fingerprints with a bit outside their range")
    dense[at] = count
    return dense.reshape(rows, bits)
