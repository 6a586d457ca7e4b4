"""Checks of single arguments.

Every message names the argument, what was received and what is expected.
"""

import operator
from typing import Any

import numpy as np

INT32_MAX = int(np.iinfo(np.int32).max)


def checked_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Returns ``value`` as an int in ``low..high``.

    Raises:
        ValueError: If it is not an integer or lies outside.
    """
    expected = f"at least {low}" if high is None else f"in {low}..{high}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(
            f"{name} is {value!r}, expected an integer {expected}"
        ) from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} is {number}, expected an integer {expected}")
    return number


def checked_array(
    name: str, value: Any, dtypes: tuple[np.dtype, ...], ndim: int
) -> np.ndarray:
    """Returns ``value`` as a plain array, without a copy.

    Raises:
        ValueError: If it is not an array of one of ``dtypes`` (in native byte order)
            with ``ndim`` dimensions, or not C-contiguous and aligned.
    """
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} is a {type(value).__name__}, expected a numpy array")
    if value.dtype not in dtypes:
        expected = " or ".join(str(dtype) for dtype in dtypes)
        raise ValueError(f"{name} has dtype {value.dtype}, expected {expected}")
    if value.ndim != ndim:
        raise ValueError(
            f"{name} has {value.ndim} dimensions (shape {value.shape}), expected {ndim}"
        )
    if not (value.flags.c_contiguous and value.flags.aligned):
        raise ValueError(
            f"{name} has strides {value.strides} for shape {value.shape}, expected a "
            f"C-contiguous aligned array; pass numpy.ascontiguousarray({name})"
        )
    return value.view(np.ndarray)  # slicing a memmap is slow


def checked_shape(
    name: str, value: Any, dtypes: tuple[np.dtype, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """Returns ``value`` as a plain array of this shape, without a copy.

    Raises:
        ValueError: As `checked_array`, or if it has another shape.
    """
    array = checked_array(name, value, dtypes, len(shape))
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {list(array.shape)}, expected {list(shape)}"
        )
    return array


def checked_square(name: str, value: Any, dtypes: tuple[np.dtype, ...]) -> np.ndarray:
    """Returns ``value`` as a plain array of shape ``[n, n]``, without a copy.

    Raises:
        ValueError: As `checked_array`, or if it is not square.
    """
    array = checked_array(name, value, dtypes, 2)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} has shape {array.shape}, expected a square matrix")
    return array
