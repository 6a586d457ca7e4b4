"""Writing of CSV and TSV files that every reader splits into the same rows."""

import csv
import os
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import IO, Any

from graphormer_plugin.data.files import atomic_write


def write_lines(
    file: IO[str], rows: Iterable[Sequence[Any]], delimiter: str = ","
) -> None:
    r"""Write rows of cells, which end in ``\n``, to a file that is open with ``newline=""``.

    Readers end a row at ``\r`` too, unless it is quoted. Before February 2024 (gh-67044),
    Python quoted the characters of its own line terminator only: hence ``\r\n`` here, which
    becomes ``\n``.
    """
    lines = SimpleNamespace(write=lambda line: file.write(line[:-2] + "\n"))
    csv.writer(lines, delimiter=delimiter).writerows(rows)


def write_csv(
    path: str | os.PathLike[str], rows: Iterable[Sequence[Any]], delimiter: str = ","
) -> None:
    """Write a file, which is there when it is complete; see `write_lines`."""
    with atomic_write(path, "w", encoding="utf-8", newline="") as file:
        write_lines(file, rows, delimiter)
