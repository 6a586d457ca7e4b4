"""Official files of benchmarks: places, downloads, and safe reading.

A user's files are only read. Downloads never prompt, time out after 20 s without data, and
are not used if incomplete. Pickles and files of torch are read with a list of allowed
classes: nothing in a file is executed.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from graphormer_plugin.data.benchmarks.pickles import load_torch
from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.files import check_hash, download_file, file_lock
from graphormer_plugin.data.splits import SPLITS, Split, consecutive_splits
from graphormer_plugin.data.tables.options import DatasetOptions

logger = logging.getLogger(__name__)

_SAMPLE_BYTES = 65536
_SAMPLES = 16


class SingleFile(NamedTuple):
    """A file that is published by itself; the hash ``md5`` is empty if none is published."""

    name: str
    url: str
    md5: str = ""


@dataclass(frozen=True)
class BenchmarkFiles:
    """The official files of a dataset.

    Attributes:
        folder: place of the files, below the data root.
        files: files that are required there.
        url: address of the archive, whose last part is its name; empty: there is none.
        inside: folder within the archive that becomes ``folder``; empty selects all.
        md5: hash of the archive, in hexadecimal; empty if none is published.
        apart: files that the archive lacks.
        graphs: number of graphs in the official release.
    """

    name: str
    folder: str
    files: tuple[str, ...]
    url: str = ""
    inside: str = ""
    md5: str = ""
    apart: tuple[SingleFile, ...] = ()
    graphs: int = 0

    @property
    def archive(self) -> str:
        """Name of the archive."""
        return self.url.rpartition("/")[2].partition("?")[0]

    def path(self, options: DatasetOptions) -> Path:
        """Folder of the files."""
        return options.root / self.folder

    def missing(self, options: DatasetOptions) -> list[str]:
        """Required files that do not exist."""
        folder = self.path(options)
        return [name for name in self.files if not (folder / name).is_file()]

    def content(self, options: DatasetOptions) -> dict[str, Any]:
        """Identify the files' content (`RegisteredDataset.content`). It hashes the size and 16
        blocks of each file, because every start asks for it and the files may have gigabytes.
        """
        if self.missing(options):
            return {"files": None}
        digest = hashlib.sha256()
        for name in self.files:
            path = self.path(options) / name
            size = path.stat().st_size
            digest.update(f"{name}:{size}\n".encode())
            with open(path, "rb") as file:
                last = max(0, size - _SAMPLE_BYTES)
                for index in range(_SAMPLES):
                    file.seek(last * index // (_SAMPLES - 1))
                    digest.update(file.read(_SAMPLE_BYTES))
        return {"files": digest.hexdigest()}

    def require(self, options: DatasetOptions) -> Path:
        """Folder of the files, which are downloaded or unpacked first if missing."""
        folder = self.path(options)
        root = options.root
        missing = self.missing(options)
        if missing and len(missing) < len(self.files):
            raise DatasetError(
                f"{self.name}: {folder} has no {', '.join(missing)}; put it there, or "
                "remove the folder to download everything"
            )
        if missing:
            with file_lock(folder):  # several processes may be here
                if self.missing(options):
                    self._fetch(root)
        for file in self.apart:
            try:
                check_hash(folder / file.name, "md5", file.md5)
            except ValueError as error:
                text = "%s of %s; numbers cannot be compared with published ones"
                logger.warning(text, error, self.name)
        return folder

    def check_count(self, count: int) -> None:
        """Warn if the official release has another number of graphs."""
        if count != self.graphs:
            logger.warning(
                "%s: %s graphs, the official release has %s; numbers cannot be "
                "compared with published ones",
                self.name,
                f"{count:,}",
                f"{self.graphs:,}",
            )

    def load_parts(self, options: DatasetOptions) -> tuple[list[Any], Split]:
        """Graphs of a file of PyG's `GNNBenchmarkDataset`, and the splits in it."""
        with self.reading(options) as folder:
            parts = load_torch(folder / self.files[0])
            counts = dict(zip(SPLITS, map(len, parts), strict=True))
            graphs = [graph for part in parts for graph in part]
        self.check_count(len(graphs))
        return graphs, consecutive_splits(counts)

    @contextlib.contextmanager
    def reading(self, options: DatasetOptions) -> Iterator[Path]:
        """The folder of `require`. DatasetError, which names it, in place of errors that damaged
        files cause."""
        folder = self.require(options)
        text = (
            f"{self.name}: the files in {folder} cannot be read: they are damaged, "
            "incomplete or of another version"
        )
        with named_damage(text, DatasetError, (DatasetError, MemoryError)):
            yield folder

    def _fetch(self, root: Path) -> None:
        folder = root / self.folder
        with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as name:
            scratch = Path(name)
            files = scratch / "files" / self.inside
            source = self._fetch_archive(root, scratch) if self.url else ""
            for file in self.apart:
                self._download(file.url, files / file.name, root, file.md5)
            if lacking := [file for file in self.files if not (files / file).is_file()]:
                raise DatasetError(
                    f"{source}: has no {Path(self.inside) / lacking[0]}; it is not an "
                    f"archive of {self.name}, or of another version"
                )
            shutil.copytree(files, folder, dirs_exist_ok=True, copy_function=os.replace)

    def _fetch_archive(self, root: Path, scratch: Path) -> str:
        """Unpack the archive; returns where it came from."""
        placed = root / self.archive
        if placed.is_file():
            archive = placed
            source = str(placed)
            remedy = "remove it"
        else:
            archive = self._download(self.url, scratch / "archive", root)
            source = self.url
            remedy = f"put {self.archive} into {root} by hand"
        damage = "the archive is damaged, incomplete or of another version"
        text = f"{source}: {damage}; {remedy}"
        keep = (OSError, MemoryError)
        with named_damage(text, DatasetError, keep):
            self._unpack(archive, scratch / "files")
        return source

    def _download(self, url: str, to: Path, root: Path, md5: str = "") -> Path:
        archive = f", or the archive {self.archive} into {root}" if self.url else ""
        addresses = self.url or " and ".join(file.url for file in self.apart)
        text = (
            f"{self.name}: its files are missing and cannot be downloaded. Put "
            f"{', '.join(self.files)} into {root / self.folder}{archive}; published at "
            f"{addresses}"
        )
        to.parent.mkdir(parents=True, exist_ok=True)
        with named_damage(text, DatasetError, keep=()):
            download_file(url, to)
            check_hash(to, "md5", md5)
        return to

    def _unpack(self, archive: Path, to: Path) -> None:
        """Raise any exception for a wrong archive."""
        check_hash(archive, "md5", self.md5)
        with zipfile.ZipFile(archive) as file:
            file.extractall(to)  # within the folder, and checks every member's CRC


def gnn_benchmark(name: str, graphs: int) -> BenchmarkFiles:
    """Files of PyG's `GNNBenchmarkDataset`, whose name is in capitals."""
    return BenchmarkFiles(
        name=name.lower(),
        folder=f"{name}/raw",
        files=(f"{name}_v2.pt",),
        url=f"https://data.pyg.org/datasets/benchmarking-gnns/{name}_v2.zip",
        graphs=graphs,
    )
