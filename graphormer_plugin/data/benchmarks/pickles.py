"""Pickles and files of torch, read with a list of allowed classes: nothing in them runs."""

import collections
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

# Functions that rebuild arrays, under their names in NumPy 1 and 2.
_NUMPY = {
    f"numpy.{core}.{name}": value
    for core in ("core", "_core")
    for name, value in {
        "multiarray._reconstruct": np._core.multiarray._reconstruct,
        "multiarray.scalar": np._core.multiarray.scalar,
        "numeric._frombuffer": np._core.numeric._frombuffer,
    }.items()
}
_PYG = "data.Data data.DataEdgeAttr data.DataTensorAttr storage.GlobalStorage"


class Attributes:
    """In the place of PyG's `Data`: has the same attributes, and no code of its own."""


def load_pickle(content: bytes) -> Any:
    """Containers, numbers, tensors, NumPy arrays, and `Attributes` of PyG's `Data`. Any other
    class is an UnpicklingError."""
    return _Unpickler(io.BytesIO(content)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """See `pickle.Unpickler`."""
        import torch  # late: it takes long

        allowed = {
            "_codecs.encode": _encoded,
            "collections.OrderedDict": collections.OrderedDict,
            "numpy.dtype": np.dtype,
            "numpy.ndarray": np.ndarray,
            "torch._utils._rebuild_tensor": torch._utils._rebuild_tensor,
            "torch._utils._rebuild_tensor_v2": torch._utils._rebuild_tensor_v2,
            "torch.storage._load_from_bytes": _load_from_bytes,
        }
        allowed |= _NUMPY
        allowed |= {f"torch_geometric.data.{name}": Attributes for name in _PYG.split()}
        if f"{module}.{name}" not in allowed:
            raise pickle.UnpicklingError(
                f"the file names {module}.{name}, which no data need"
            )
        return allowed[f"{module}.{name}"]


def _encoded(text: str, encoding: str) -> bytes:
    """Bytes, which old pickles have as text."""
    return text.encode("latin1")


def _load_from_bytes(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), weights_only=True)


def load_torch(path: Path) -> Any:
    """Content of a file of torch: containers, tensors and NumPy arrays, no code."""
    import torch  # late: it takes long

    reconstruct = np._core.multiarray._reconstruct
    allowed = [
        reconstruct,
        # Files written under NumPy 1 give it this name.
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
        *{type(np.dtype(name)) for name in ("int64", "int32", "uint8", "float64")},
    ]
    with torch.serialization.safe_globals(allowed):
        return torch.load(path, weights_only=True)
