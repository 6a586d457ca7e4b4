"""Tables of measurements in tab-separated files, to which several processes append."""

import csv
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]


def read(path: Path) -> list[Row]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def append(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Add rows to a table in a single write: a kill leaves all of them or none.

    An empty table gets the header first. Several processes may append at once.
    """
    with open(path, "a", newline="", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        new = os.fstat(file.fileno()).st_size == 0  # now, not when it was opened
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([columns, *rows] if new else rows)
