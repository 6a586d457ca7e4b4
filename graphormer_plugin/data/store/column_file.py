"""Columns of a store while they are written: `.npy` files that grow."""

import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphormer_plugin.data.files import atomic_write, named_in_errors, open_to_write

NPY_HEADER_BYTES = 128  # room for any shape


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Header of the .npy format, version 1.0, of a fixed length.

    Not `numpy.lib.format`'s, which writes the fields in other words: a store's
    fingerprint covers these bytes.
    """
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    magic = np.lib.format.magic(1, 0)
    length = NPY_HEADER_BYTES - len(magic) - 2
    text = repr(fields).encode("ascii").ljust(length - 1)
    return magic + length.to_bytes(2, "little") + text + b"\n"


class ColumnFile:
    """A ``.npy`` file made from chunks, in the smallest type that holds all values.

    Chunks wait in a second file, each in its own smallest type, until `close` knows the
    range of all.

    Args:
        dtypes: Types that the column may have, smallest first.
    """

    def __init__(self, path: Path, dtypes: tuple[str, ...]) -> None:
        self.path = path
        self.dtypes = [np.dtype(dtype) for dtype in dtypes]
        self.dtype = self.dtypes[0]
        self.tail: tuple[int, ...] | None = None
        self.rows = 0
        self._chunks: list[tuple[np.dtype, int]] = []  # type and bytes of each
        self.waiting: BinaryIO = open_to_write(path.with_suffix(".chunks"), "x+b")

    def append(self, values: np.ndarray, largest: int | None = None) -> None:
        """Adds rows.

        Args:
            values: All chunks agree in their shape without the first dimension.
            largest: Value that the column must be able to hold; None takes it from the
                values.

        Raises:
            ValueError: Another shape, or a value that no type holds.
        """
        if self.tail is None:
            self.tail = values.shape[1:]
        if values.shape[1:] != self.tail:
            raise ValueError(
                f"{self.path.stem} has rows of shape {list(values.shape[1:])}, "
                f"expected {list(self.tail)}"
            )
        dtype = self._type_of(values, largest)
        self.dtype = max(self.dtype, dtype, key=self.dtypes.index)
        content = np.ascontiguousarray(values, dtype=dtype).tobytes()
        self._chunks.append((dtype, len(content)))
        self.rows += len(values)
        with named_in_errors(self.waiting.name):
            self.waiting.write(content)

    def _type_of(self, values: np.ndarray, largest: int | None) -> np.dtype:
        kinds = [
            {"f": "floats"}.get(t.kind, "integers") for t in (values.dtype, self.dtype)
        ]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"{self.path.stem} has {kinds[0]} here and {kinds[1]} before"
            )
        if self.dtype.kind == "f":
            return self.dtype
        low = int(values.min(initial=0))
        high = int(values.max(initial=0) if largest is None else largest)
        for dtype in self.dtypes:
            limits = np.iinfo(dtype)
            if limits.min <= low and high <= limits.max:
                return dtype
        raise ValueError(
            f"{self.path.stem} has a value in {low}..{high}, expected "
            f"{limits.min}..{limits.max}"
        )

    @property
    def bytes(self) -> int:
        """Bytes of all chunks, also of a chunk that could not be written."""
        return sum(size for _, size in self._chunks)

    def close(self, table: np.ndarray | None = None) -> None:
        """Writes the file.

        Args:
            table: The column becomes ``table[values]``, in the type of the table.
        """
        if table is not None:
            self.dtype = table.dtype
        # Before `with`, which would flush again and hide the error.
        with named_in_errors(self.waiting.name):
            self.waiting.flush()
        with self.waiting, atomic_write(self.path) as file:
            self.waiting.seek(0)
            file.write(npy_header(self.dtype, (self.rows, *(self.tail or ()))))
            for dtype, size in self._chunks:
                values = np.frombuffer(self.waiting.read(size), dtype)
                values = values if table is None else table[values]
                file.write(values.astype(self.dtype, copy=False).tobytes())
        os.unlink(self.waiting.name)
