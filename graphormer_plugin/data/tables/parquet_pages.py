"""Sizes in the headers of a Parquet file's pages, by which pyarrow takes memory; the sizes in
the footer are only a summary, which may be wrong.

Thrift's compact protocol, and the struct ``PageHeader`` of parquet.thrift.
"""

from typing import IO, Any

I32, STRUCT = 5, 12  # types of fields
UNPACKED, PACKED = (2, I32), (3, I32)  # fields of PageHeader: sizes in bytes
KINDS = [(5, STRUCT), (7, STRUCT), (8, STRUCT)]  # data, dictionary, data of version 2
COUNT = (1, I32)  # in each kind: number of values


def unpacked(file: IO[bytes], start: int, end: int) -> tuple[int, int]:
    """Bytes and values of the pages between two places of a file.

    Raises:
        ValueError, IndexError: There are no pages.
    """
    size = values = 0
    while start < end:
        file.seek(start)
        header = _struct(file)
        counts = [header[kind][COUNT] for kind in KINDS if kind in header]
        if min(header[PACKED], header[UNPACKED], *counts) < 0:
            raise ValueError("a page has a negative size")
        size += header[UNPACKED]
        values += sum(counts)
        start = file.tell() + header[PACKED]
    return size, values


def _struct(file: IO[bytes]) -> dict[tuple[int, int], Any]:
    """Fields by number and type. Other types than those in page headers are errors."""
    fields: dict[tuple[int, int], Any] = {}
    number = 0
    while head := file.read(1)[0]:
        step, kind = head >> 4, head & 15
        number = number + step if step else _integer(file)
        if not 0 < number < 1 << 15:  # of a field: Thrift would cast it
            raise ValueError("a page header has a field without a number")
        value: Any = None
        if kind == STRUCT:
            value = _struct(file)
        elif kind == 8:  # text, of a statistic
            file.seek(_varint(file), 1)
        elif kind in (4, I32, 6):
            value = _integer(file)
        elif kind not in (1, 2):  # True and False have no bytes
            raise ValueError(f"a page header has a field of type {kind}")
        fields[number, kind] = value
    return fields


def _integer(file: IO[bytes]) -> int:
    value = _varint(file) & (1 << 32) - 1  # as Thrift casts it
    return (value >> 1) ^ -(value & 1)


def _varint(file: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a number in a page header does not end")
