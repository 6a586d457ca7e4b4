"""Official files of benchmarks: where they lie, how they come, how to read them safely.

OGB's and PyG's own functions download and parse. What they lack is added around them:

- a folder of the user is only read; loaders work in a scratch folder of links, which
  goes away, so that nothing half-built stays behind and no loader deletes a file;
- no question on standard input, no call to a version server, a time limit for every
  silence of the network;
- pickles, and files of torch, are read with a list of allowed classes.
"""

from __future__ import annotations

import builtins
import contextlib
import gzip
import hashlib
import http.client
import io
import logging
import os
import socket
import sys
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_lock
from graphormer_plugin.data.options import DatasetOptions, data_root_folder

logger = logging.getLogger(__name__)

NETWORK_TIMEOUT_S = 20.0  # of silence, when connecting or between two blocks
_SAMPLE_BYTES = 65536
_SAMPLES = 16


@dataclass(frozen=True)
class Official:
    """The official files of a dataset.

    Attributes:
        name: Of the dataset.
        folder: Where the files lie, below the data root.
        files: Needed there.
        url: Of the archive; its last part is the archive's name.
        inside: Folder within the archive that becomes ``folder``; empty: all of it.
        md5: Of the archive, in hexadecimal; empty where none is published.
        more: Files that are no part of the archive, with their addresses.
        graphs: Of the official release, for a line about any other number.
    """

    name: str
    folder: str
    files: tuple[str, ...]
    url: str
    inside: str = ""
    md5: str = ""
    more: tuple[tuple[str, str], ...] = ()
    graphs: int = 0

    @property
    def archive(self) -> str:
        """Name of the archive."""
        return self.url.rpartition("/")[2].partition("?")[0]

    def path(self, options: DatasetOptions) -> Path:
        """Folder of the files."""
        return data_root_folder(options) / self.folder

    def missing(self, options: DatasetOptions) -> list[str]:
        """Needed files that are not there."""
        folder = self.path(options)
        return [name for name in self.files if not (folder / name).is_file()]

    def content(self, options: DatasetOptions) -> Optional[str]:
        """Identifies the files' content; None where one is missing.

        Hashes sizes and 16 blocks of each file, not all of what may be gigabytes: it
        is asked for at every start. A store is verified by its own checksums.
        """
        if self.missing(options):
            return None
        digest = hashlib.sha256()
        for name in self.files:
            path = self.path(options) / name
            size = path.stat().st_size
            digest.update(f"{name}:{size}\n".encode())
            with open(path, "rb") as file:
                last = max(0, size - _SAMPLE_BYTES)
                for number in range(_SAMPLES):
                    file.seek(last * number // (_SAMPLES - 1))
                    digest.update(file.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def require(self, options: DatasetOptions) -> Path:
        """Folder of the files, downloaded or unpacked first where one is missing.

        Raises:
            DatasetError: A file is missing and cannot be got; says which file belongs
                where.
        """
        folder = self.path(options)
        missing = self.missing(options)
        if missing and len(missing) < len(self.files):
            raise DatasetError(
                f"{self.name}: {folder} has no {', '.join(missing)}; put it there, or "
                "remove the folder to download everything"
            )
        if missing:
            root = data_root_folder(options)
            with file_lock(root / self.archive):  # several processes may ask at once
                if self.missing(options):
                    self._fetch(root)
        for name in self.files:
            if name.endswith(".gz"):
                _check_gzip(folder / name)
        return folder

    def check_count(self, count: int) -> None:
        """Says so where there are not as many graphs as in the official release."""
        if count != self.graphs:
            logger.warning(
                "%s: %s graphs, the official release has %s; numbers cannot be "
                "compared with published ones",
                self.name,
                f"{count:,}",
                f"{self.graphs:,}",
            )

    def damaged(self, folder: Path, error: BaseException) -> DatasetError:
        """What a loader failed with, as one line about the files."""
        what = " ".join(str(error).split())[:200]
        return DatasetError(
            f"{self.name}: the files in {folder} cannot be read: they are damaged, "
            f"incomplete or of another version ({type(error).__name__}: {what})"
        )

    def _fetch(self, root: Path) -> None:
        folder, placed = root / self.folder, root / self.archive
        with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as name:
            scratch = Path(name)
            if placed.is_file():
                archive, source, remedy = placed, str(placed), "remove it"
            else:
                archive = self._download(self.url, scratch / "archive", root)
                source, remedy = self.url, f"put {self.archive} into {root} by hand"
            self._check_md5(archive, source, remedy)
            _unzip(archive, scratch / "files", source, remedy)
            files = scratch / "files" / self.inside
            for file, url in self.more:
                self._download(url, (files / file).parent, root)
            for file in self.files:
                if not (files / file).is_file():
                    raise DatasetError(
                        f"{source}: has no {Path(self.inside) / file}; it is no "
                        f"archive of {self.name}, or of another version"
                    )
            if not folder.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                os.replace(files, folder)
                return
            for file in self.files:  # beside what else somebody keeps there
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(files / file, folder / file)

    def _download(self, url: str, to: Path, root: Path) -> Path:
        from torch_geometric.data import download_url

        urlopen, answers = urllib.request.urlopen, []

        def remembered(*args: Any, **kwargs: Any) -> Any:
            answers.append(urlopen(*args, **kwargs))
            return answers[-1]

        try:
            with network_timeout(), patched(urllib.request, "urlopen", remembered):
                path = Path(download_url(url, str(to)))
            # A connection that breaks looks like the end of the file.
            size, whole = path.stat().st_size, answers[-1].headers["Content-Length"]
            if whole is not None and size != int(whole):
                raise ValueError(f"the connection ended after {size} of {whole} bytes")
            return path
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DatasetError(
                f"{self.name}: its files are not there and cannot be downloaded "
                f"({reason}). Put {', '.join(self.files)} into {root / self.folder}, "
                f"or the archive {self.archive} into {root}; it is published at "
                f"{self.url}"
            ) from None

    def _check_md5(self, archive: Path, source: str, remedy: str) -> None:
        if not self.md5:
            return
        with open(archive, "rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != self.md5:
            raise DatasetError(
                f"{source}: md5 is {found}, that of {self.name} is {self.md5}: the "
                f"file is damaged, incomplete or of another version; {remedy}"
            )


# ----------------------------------------------------------------- safe surroundings


@contextlib.contextmanager
def network_timeout(seconds: float = NETWORK_TIMEOUT_S) -> Iterator[None]:
    """Ends a connection that says nothing for so long; urllib alone waits forever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Sets an attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def scratch_root(options: DatasetOptions, links: dict[str, Path]) -> Iterator[Path]:
    """A folder for a loader that writes beside what it reads; goes away afterwards.

    Args:
        options: It lies in their data root, on a disk that has room.
        links: What is to be found in it: targets by path within the folder.
    """
    root = data_root_folder(options) / "stores"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".loading-") as name:
        for place, target in links.items():
            link = Path(name) / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target.resolve())
        yield Path(name)


@contextlib.contextmanager
def tamed(official: Official, folder: Path) -> Iterator[None]:
    """Runs a loader: safe, silent, without questions, with one kind of error.

    Raises:
        DatasetError: The loader fails, whatever with.
    """

    def refuse(prompt: str = "") -> str:
        raise DatasetError(f"{official.name}: the loader asks {prompt.strip()!r}")

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(builtins, "input", refuse))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(network_timeout())
        stack.enter_context(safe_globals())
        try:
            yield
        except DatasetError:
            raise
        except MemoryError:
            raise
        except Exception as error:
            raise official.damaged(folder, error) from error


@contextlib.contextmanager
def safe_globals() -> Iterator[None]:
    """Lets ``torch.load`` read NumPy arrays, of any version, with its safe loader on."""
    import numpy as np
    import torch

    reconstruct = np._core.multiarray._reconstruct
    allowed = [
        reconstruct,
        # Files written under NumPy 1 give it this name.
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
        *{type(np.dtype(name)) for name in ("int64", "int32", "uint8", "float64")},
    ]
    with torch.serialization.safe_globals(allowed):
        yield


def import_ogb() -> None:
    """Imports ogb without its call to a server that knows the newest version."""
    if "ogb" in sys.modules:
        return
    before = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # importing it fails, which ogb is prepared for
    try:
        import ogb  # noqa: F401
    finally:
        del sys.modules["outdated"]
        if before is not None:
            sys.modules["outdated"] = before


def _unzip(archive: Path, to: Path, source: str, remedy: str) -> None:
    try:
        with zipfile.ZipFile(archive) as file:
            file.extractall(to)  # checks every member's CRC; leaves no folder upwards
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DatasetError(
            f"{source}: the archive is damaged or incomplete ({error}); {remedy}"
        ) from None


def _check_gzip(path: Path) -> None:
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path}: the gzip file is damaged or incomplete: {error}"
        ) from None
