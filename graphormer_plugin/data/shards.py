"""Shards: fixed parts of a table, one for each of several independent jobs."""

import re
from dataclasses import dataclass
from pathlib import Path

from graphormer_plugin.data.errors import DatasetError


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of a table; sizes of shards differ by at most a row.

    Examples:
        >>> [Shard(number, 3).rows(10) for number in (1, 2, 3)]
        [(0, 3), (3, 6), (6, 10)]

    Attributes:
        number: From 1.
        count: Number of parts; 1 stands for the whole table.
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard of a text such as ``3/100``.

        Raises:
            DatasetError: The text has another form, or the number is above the count.
        """
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
        """Sorts by number.

        >>> Shard(3, 100).name
        '00003-of-00100'
        """
        return f"{self.number:05d}-of-{self.count:05d}"

    def rows(self, total: int) -> tuple[int, int]:
        """First row and end (exclusive) in a table of ``total`` rows."""
        return (
            (self.number - 1) * total // self.count,
            self.number * total // self.count,
        )

    def path(self, path: Path) -> Path:
        """File of this part, by the file of the whole table.

        >>> Shard(3, 100).path(Path("out.parquet")).name
        'out-00003-of-00100.parquet'
        """
        if self.is_whole:
            return path
        return path.with_name(f"{path.stem}-{self.name}{path.suffix}")

    def check_output(self, path: Path) -> None:
        """Check that no other division was written under the name of the whole table's file.

        Raises:
            DatasetError: Reading all files of that name would mix divisions.
        """
        if self.is_whole or not path.parent.is_dir():
            return
        name = re.compile(
            rf"{re.escape(path.stem)}-\d{{5,}}-of-(\d{{5,}}){re.escape(path.suffix)}"
            r"(\.parts)?"
        )
        for other in sorted(path.parent.iterdir()):
            shard = name.fullmatch(other.name)
            if shard and int(shard[1]) != self.count:
                raise DatasetError(
                    f"{other} is one of {int(shard[1])} shards, this run writes one of "
                    f"{self.count}; remove it, or name another output"
                )
