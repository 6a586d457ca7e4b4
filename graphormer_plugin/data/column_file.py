"""Columns of a store while they are written: `.npy` files that grow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Optional

import numpy as np

BLOCK_ROWS = 1 << 20
NPY_HEADER_BYTES = 128  # room for any shape: the header is written last, in place


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
    """A growing ``.npy`` file that takes a wider type when a value asks for it."""

    def __init__(self, path: Path, dtypes: tuple[str, ...]) -> None:
        self.path = path
        self.dtypes = [np.dtype(dtype) for dtype in dtypes]
        self.dtype = self.dtypes[0]
        self.tail: Optional[tuple[int, ...]] = None
        self.rows = 0
        self.file: BinaryIO = open(path, "wb")
        self.file.write(bytes(NPY_HEADER_BYTES))

    def append(self, values: np.ndarray, largest: Optional[int] = None) -> None:
        if self.tail is None:
            self.tail = values.shape[1:]
        if values.shape[1:] != self.tail:
            raise ValueError(
                f"{self.path.stem} has rows of shape {list(values.shape[1:])}, "
                f"expected {list(self.tail)}"
            )
        if self.dtype.kind != "f":
            high = int(values.max(initial=0) if largest is None else largest)
            self._widen(int(values.min(initial=0)), high)
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).tobytes())
        self.rows += len(values)

    def _widen(self, low: int, high: int) -> None:
        for dtype in self.dtypes[self.dtypes.index(self.dtype) :]:
            limits = np.iinfo(dtype)
            if limits.min <= low and high <= limits.max:
                break
        else:
            raise ValueError(
                f"{self.path.stem} has a value in {low}..{high}, expected "
                f"{limits.min}..{limits.max}"
            )
        if dtype == self.dtype:
            return
        if self.rows:
            self.file.close()
            wide = self.path.with_suffix(".wide")
            with open(self.path, "rb") as old, open(wide, "wb") as new:
                old.seek(NPY_HEADER_BYTES)
                new.write(bytes(NPY_HEADER_BYTES))
                while block := old.read(BLOCK_ROWS * self.dtype.itemsize):
                    new.write(np.frombuffer(block, self.dtype).astype(dtype).tobytes())
            os.replace(wide, self.path)
            self.file = open(self.path, "r+b")
            self.file.seek(0, os.SEEK_END)
        self.dtype = dtype

    def close(self) -> None:
        if self.file.closed:
            return
        shape = (self.rows, *(self.tail or ()))
        self.file.seek(0)
        self.file.write(npy_header(self.dtype, shape))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
