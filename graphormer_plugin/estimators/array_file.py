"""Files of arrays and JSON values, which run no code when they are read (``.npz``)."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.files import PathName, atomic_write, read_arrays

META = "meta"
Contents = tuple[dict[str, Any], dict[str, NDArray]]  # JSON values, and arrays by name


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Digest of a checkpoint's weights; converting or slimming the file keeps it."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {list(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def write_arrays(
    path: PathName, meta: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write JSON values and arrays of numbers; a file of that name is replaced."""
    with atomic_write(path) as file:
        np.savez(file, **{META: np.array(json.dumps(meta))}, **arrays)


@contextlib.contextmanager
def reading(
    path: PathName, kind: str, version: int, owner: str | None
) -> Iterator[Contents]:
    """Read a file of `write_arrays`; any error within becomes a line.

    Args:
        version: expected ``version`` of its JSON values.
        owner: expected ``checkpoint``, a `weights_digest`; None: any.
    """
    arrays = read_arrays(path, kind)
    with named_damage(f"{path} is not a {kind}, or damaged"):
        meta = json.loads(str(arrays.pop(META)))
        try:
            if meta["version"] != version:
                raise KeyError(f"version {version}")
            yield meta, arrays
        except KeyError as error:
            text = f"{path} is of another version of this package, without {error}"
            raise DatasetError(f"{text}; train again") from error
    if owner not in (None, meta["checkpoint"]):
        raise ValueError(
            f"{path} belongs to another checkpoint than the checkpoint that it is used "
            "with; remove it, or make it again"
        )
