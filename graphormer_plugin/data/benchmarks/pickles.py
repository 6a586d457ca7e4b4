"""Pickles and files of torch, read with a list of allowed names: nothing in them runs, and no
array reaches beyond its bytes."""

import io
import math
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np

# Storages of torch by the types of their numbers.
_STORAGES = dict(
    zip(
        "b1 u1 i1 i2 i4 i8 f2 f4 f8".split(),
        "Bool Byte Char Short Int Long Half Float Double".split(),
    )
)
_DTYPES = {*_STORAGES, "u2", "u4", "u8"}
_PYG = "data.Data data.DataEdgeAttr data.DataTensorAttr storage.GlobalStorage"


class Attributes:
    """In the place of PyG's `Data`: has the same attributes, and no code of its own."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state


class _Dtype:
    """In the place of ``numpy.dtype``, which takes pointers and any size from a file."""

    def __init__(self, name: str, *flags: Any) -> None:
        # The text or the hash of tuples in tuples has no end.
        if not isinstance(name, str) or name not in _DTYPES:
            kind = name if isinstance(name, str) else type(name).__name__
            raise pickle.UnpicklingError(f"an array of {kind!r}, expected numbers")
        self.plain = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.plain = self.plain.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array that a file fills with as many bytes as its shape has."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, in_columns, content = state
        array = _numbers(content, dtype).reshape(_whole(shape))
        super().__setstate__((1, array.shape, array.dtype, bool(in_columns), content))


def _reconstruct(*empty: Any) -> np.ndarray:
    return _Array(0, np.uint8)


def _whole(numbers: Any) -> list[int]:
    return [*map(operator.index, numbers)]


def _numbers(content: Any, dtype: Any) -> np.ndarray:
    if not isinstance(content, bytes) or not isinstance(dtype, _Dtype):
        raise pickle.UnpicklingError("an array of objects, expected numbers")
    return np.frombuffer(content, dtype.plain)


def _frombuffer(content: Any, dtype: Any, shape: Any, order: str) -> np.ndarray:
    return _numbers(content, dtype).reshape(_whole(shape), order=order)


def _scalar(dtype: _Dtype, content: bytes) -> Any:
    return _numbers(content, dtype)[0]


def _storage(content: bytes) -> np.ndarray:
    """Numbers of a storage of torch, in its format before the archives."""
    file = io.BytesIO(content)
    for _ in ("magic number", "version", "system"):
        _Unpickler(file).load()
    _, kind, _, _, count, view = _Unpickler(file).load()
    _Unpickler(file).load()  # its name
    if view is not None:
        raise pickle.UnpicklingError("a part of a storage")
    start = file.tell() + np.dtype(np.int64).itemsize  # of its length
    return np.frombuffer(file.getvalue(), _Dtype(kind).plain, count, start)


def _tensor(
    values: np.ndarray, offset: int, size: Any, stride: Any, *_: Any
) -> np.ndarray:
    """The array of a tensor, which has each of the ``values`` at most once."""
    values = values.ravel()
    size = _whole(size)
    stride = _whole(stride)
    count = math.prod(size)
    ends = ((number - 1) * step for number, step in zip(size, stride, strict=True))
    end = offset + sum(ends) + 1 if count else offset
    if min(offset, *size, *stride, 0) < 0 or max(count, end) > len(values):
        raise pickle.UnpicklingError("a tensor beyond its storage")
    strides = [step * values.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(values[offset:], size, strides).copy()


def _encoded(text: str, encoding: str) -> bytes:
    """Bytes, which old pickles have as text."""
    return text.encode("latin1")


_NUMPY: dict[str, Any] = {
    "_codecs.encode": _encoded,
    "numpy.dtype": _Dtype,
    "numpy.ndarray": None,  # an argument of _reconstruct; called, it takes pointers
} | {
    f"numpy.{core}.{name}": value  # of NumPy 1 and 2
    for core in ("core", "_core")
    for name, value in {
        "multiarray._reconstruct": _reconstruct,
        "multiarray.scalar": _scalar,
        "numeric._frombuffer": _frombuffer,
    }.items()
}
_ALLOWED: dict[str, Any] = {
    "__builtin__.bytes": lambda: b"",
    "collections.OrderedDict": lambda: {},
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.storage._load_from_bytes": _storage,
    **_NUMPY,
    **{f"torch.{name}Storage": dtype for dtype, name in _STORAGES.items()},
    **{f"torch_geometric.data.{name}": Attributes for name in _PYG.split()},
}


def load_pickle(content: bytes) -> Any:
    """Containers, numbers, NumPy arrays, which tensors become, and `Attributes` of PyG's `Data`.
    Any other class is an UnpicklingError."""
    return _Unpickler(io.BytesIO(content)).load()


class _Unpickler(pickle._Unpickler):  # type: ignore[misc]
    """Python's own: that in C ends by a signal, or fills the memory, if a file numbers an
    object with 2**31."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        """See `pickle.Unpickler`."""
        if f"{module}.{name}" not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"the file names {module}.{name}, which no data need"
            )
        return _ALLOWED[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Any:
        """The description of a storage of torch."""
        return pid

    def load_build(self) -> None:
        """Give a state to what takes one: no other fields are set."""
        state = self.stack.pop()
        if not isinstance(self.stack[-1], (Attributes, _Dtype, _Array)):
            raise pickle.UnpicklingError("a state of what has none")
        self.stack[-1].__setstate__(state)

    def fill(self, items: list[Any]) -> None:
        """Fill a dictionary with keys and values."""
        # A hash of tuples in tuples may end the process.
        if not all(isinstance(key, (str, bytes, int)) for key in items[::2]):
            raise pickle.UnpicklingError("a key that is no word or number")
        dict.update(self.stack[-1], zip(items[::2], items[1::2]))

    dispatch |= {
        pickle.BUILD[0]: load_build,
        pickle.BYTEARRAY8[0]: dispatch[pickle.BINBYTES8[0]],
        pickle.DICT[0]: lambda self: (self.pop_mark(), self.append({})),
        pickle.SETITEM[0]: lambda self: self.fill(
            [self.stack.pop(-2), self.stack.pop()]
        ),
        pickle.SETITEMS[0]: lambda self: self.fill(self.pop_mark()),
    }
    del dispatch[pickle.ADDITEMS[0]], dispatch[pickle.FROZENSET[0]]


def load_torch(path: Path) -> Any:
    """Content of a file of torch: containers, tensors and NumPy arrays, no code."""
    import torch  # late: it takes long

    allowed = [(value, name) for name, value in _NUMPY.items()]
    # The type of an array has a name that no file can have.
    with torch.serialization.safe_globals([*allowed, (_Array, "array")]):
        return torch.load(path, weights_only=True)
