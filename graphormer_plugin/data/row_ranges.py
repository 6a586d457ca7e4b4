"""Shards: fixed parts of a table, one for each of several independent jobs."""

import glob
import re
from dataclasses import dataclass
from pathlib import Path

from graphormer_plugin.data.errors import DatasetError


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of a table; sizes of shards differ by at most a row.

    >>> print(*(Shard(number, 3).rows(10) for number in (1, 2, 3)))
    (0, 3) (3, 6) (6, 10)
    >>> Shard(3, 100).path(Path("out.parquet")).name
    'out-00003-of-00100.parquet'

    Attributes:
        number: from 1.
        count: number of parts; 1 stands for the whole table.
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard of a text such as ``3/100``; DatasetError for another text."""
        parts = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        number, count = map(int, parts.groups()) if parts else (0, 0)
        if not 1 <= number <= count:
            raise DatasetError(
                f"--shard {text}: expected i/n with i from 1 to n, e.g. 3/100 for the "
                "third of 100 parts"
            )
        return cls(number, count)

    @property
    def is_whole(self) -> bool:
        """Whether it is the only part."""
        return self.count == 1

    @property
    def name(self) -> str:
        """Its part of a file's name, which sorts by number."""
        return f"{self.number:05d}-of-{self.count:05d}"

    def rows(self, total: int) -> tuple[int, int]:
        """First row and end (exclusive) in a table of ``total`` rows."""
        first, end = (n * total // self.count for n in (self.number - 1, self.number))
        return first, end

    def path(self, path: Path) -> Path:
        """File of this part, by the file of the whole table."""
        if self.is_whole:
            return path
        return path.with_name(f"{path.stem}-{self.name}{path.suffix}")

    def check_output(self, path: Path) -> None:
        """Raise DatasetError if shards of another division are there, which a reader of all
        files would mix."""
        if self.is_whole:
            return
        stem, suffix = map(glob.escape, (path.stem, path.suffix))
        for other in sorted(path.parent.glob(f"{stem}-?????-of-?????{suffix}*")):
            count = int(other.name.removeprefix(f"{path.stem}-")[9:14])
            if count != self.count:
                raise DatasetError(
                    f"{other} is one of {count} shards, this run writes one of "
                    f"{self.count}; remove it, or name another output"
                )
