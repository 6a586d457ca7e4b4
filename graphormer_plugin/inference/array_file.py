"""Files of arrays and JSON values, which run no code when they are read (``.npz``)."""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphormer_plugin.data.files import atomic_write

META = "meta"


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Digest of a checkpoint's weights; converting or slimming the file keeps it."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {list(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def write_arrays(
    path: str | os.PathLike[str], meta: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write a file; one of that name is replaced.

    Args:
        path: of the file.
        meta: JSON values.
        arrays: of numbers.
    """
    with atomic_write(path) as file:
        np.savez(file, **{META: np.array(json.dumps(meta))}, **arrays)


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator["ArrayReader"]:
    """Read a file of `write_arrays`; what goes wrong becomes one line.

    Args:
        path: of the file.
        what: kind of file, for messages.

    Raises:
        OSError: there is no such file.
        ValueError: it is damaged, of another kind, or not all of it was taken.
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            if any(entry.compress_type for entry in archive.infolist()):
                raise ValueError("it was packed again with compression")
            arrays = {}
            for name in archive.namelist():
                entry = io.BytesIO(archive.read(name))  # which compares checksums
                array = np.lib.format.read_array(entry, allow_pickle=False)
                arrays[name.removesuffix(".npy")] = array
        reader = ArrayReader(json.loads(str(arrays.pop(META))), arrays)
        yield reader
        if arrays:
            raise ValueError(f"unknown array {min(arrays)}")
    except OSError:
        raise
    except Exception as error:  # whatever a missing or wrong part causes
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(f"{path} is not a {what}, or damaged: {reason}") from None


class ArrayReader:
    """Takes arrays out of a file one by one, and checks each.

    Attributes:
        meta: JSON values.
        arrays: what was not taken yet.
    """

    def __init__(self, meta: dict[str, Any], arrays: dict[str, NDArray]) -> None:
        self.meta = meta
        self.arrays = arrays

    def take(
        self,
        name: str,
        shape: tuple[int | None, ...],
        low: float = -np.inf,
        high: float = np.inf,
        kind: str = "f",
        finite: bool = True,
    ) -> NDArray:
        """An array.

        Args:
            name: of the array.
            shape: expected; None: any.
            low: least value.
            high: greatest value.
            kind: NumPy's letters of the types that it may have.
            finite: whether values must be finite.

        Raises:
            KeyError, ValueError: it is missing or wrong.
        """
        array = self.arrays.pop(name)
        fits = array.ndim == len(shape) and all(
            size in (None, found) for size, found in zip(shape, array.shape)
        )
        if not fits or array.dtype.kind not in kind:
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
        inside = np.isfinite(array) & (array >= low) & (array <= high)
        if finite and not inside.all():
            raise ValueError(f"{name} has a value outside {low} to {high}")
        return array


def check_owner(path: str | os.PathLike[str], found: str, expected: str | None) -> None:
    """Raise ValueError unless a file names the checkpoint that it is used with.

    Args:
        path: of the file, for the message.
        found: `weights_digest` that it names.
        expected: of the checkpoint; None: any.
    """
    if expected is not None and found != expected:
        raise ValueError(
            f"{path} belongs to another checkpoint than the one that it is used with; "
            "remove it, or make it again"
        )
