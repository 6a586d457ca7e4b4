"""Checks of single arguments, and their padding. A message names the argument, its value and
what is allowed."""

import math
import operator
from typing import Any

import numpy as np

INT32_MAX = int(np.iinfo(np.int32).max)
FLOAT = (np.dtype(np.float32),)
INDEX = (np.dtype(np.int64),)


def checked_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int in ``low..high``."""
    number = operator.index(value)
    if number < low or (high is not None and number > high):
        expected = f"at least {low}" if high is None else f"in {low}..{high}"
        raise ValueError(f"{name} is {number}, expected an integer {expected}")
    return number


def checked_array(
    name: str,
    value: Any,
    dtypes: tuple[np.dtype, ...],
    shape: tuple[int | None, ...],
) -> np.ndarray:
    """Return a checked array as a plain `numpy.ndarray`, without a copy."""
    array = np.asarray(value)  # not a memmap, which is slow to slice
    fits = len(shape) == array.ndim and all(
        expected in (None, length) for expected, length in zip(shape, array.shape)
    )
    flags = array.flags
    if not (fits and array.dtype in dtypes and flags.c_contiguous and flags.aligned):
        lengths = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(
            f"{name} has dtype {array.dtype}, shape {list(array.shape)} and strides "
            f"{list(array.strides)}, expected {' or '.join(map(str, dtypes))} "
            f"[{lengths}], C-contiguous and aligned"
        )
    return array


def check_floats(*arrays: tuple[str, Any, tuple[int | None, ...]]) -> None:
    """Check float32 arrays, or None, by name and shape."""
    for name, array, shape in arrays:
        if array is not None:
            checked_array(name, array, FLOAT, shape)


def zeros(*shape: int) -> np.ndarray:
    """Return float32 zeros that begin where a line of the cache begins."""
    room = np.zeros(math.prod(shape) + 15, np.float32)
    return room[-room.ctypes.data // 4 % 16 :][: math.prod(shape)].reshape(shape)


def padded(array: Any, lanes: int) -> Any:
    """The array, or None, with zeros after its last dimension, up to a multiple of ``lanes``,
    from the start of a vector on."""
    if array is None:
        return None
    *shape, width = array.shape
    if width % lanes or array.ctypes.data % (4 * lanes):
        given = array
        array = zeros(*shape, -(-width // lanes) * lanes)
        array[..., :width] = given
    return array
