"""Published models by name: where their files are, and how they are read."""

import hashlib
import http.client
import logging
import os
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

from graphormer_plugin.data.files import file_lock
from graphormer_plugin.data.options import DatasetOptions, data_root_folder
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.finetune.transfer import Pretrained, read_pretrained

logger = logging.getLogger(__name__)

ENVIRONMENT = "GRAPHORMER_PRETRAINED_DIR"
NETWORK_TIMEOUT_S = 20.0  # of silence, when connecting or between two blocks
NONE = "none"  # Graphormer v2's word for no model


@dataclass(frozen=True)
class Published:
    """A published model.

    Attributes:
        file: name that its authors gave the file.
        source: whose code made it, a choice of ``graphormer-convert --from``.
        config: what the weights do not tell, as for ``graphormer-convert --config``.
        address: where its authors put it.
        sha256: of the file, in hexadecimal digits; empty where none is known. Then
            nothing is downloaded: the address is in the message, for a download by
            hand.
    """

    file: str
    source: str = "microsoft-graphormer"
    config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    address: str = ""
    sha256: str = ""


MICROSOFT = "https://ml2md.blob.core.windows.net/graphormer-ckpts"


def _microsoft(file: str) -> Published:
    return Published(file, address=f"{MICROSOFT}/{file}")


# Names and addresses of Graphormer v2's own table. Its authors publish no checksums,
# and none is made up here.
PUBLISHED = {
    "pcqm4mv1_graphormer_base": _microsoft("checkpoint_best_pcqm4mv1.pt"),
    "pcqm4mv2_graphormer_base": _microsoft("checkpoint_best_pcqm4mv2.pt"),
    "pcqm4mv1_graphormer_base_for_molhiv": _microsoft(
        "checkpoint_base_preln_pcqm4mv1_for_hiv.pt"
    ),
}


def load_pretrained(
    name: str, folder: Optional[str] = None, data_root: Optional[str] = None
) -> Pretrained:
    """Weights and vocabularies of a published model, or of one's own, by name.

    The file ``NAME.pt``, or the name that its authors gave it, is looked for in
    ``folder``, in ``$GRAPHORMER_PRETRAINED_DIR`` and in ``pretrained`` below the data
    root. It is a checkpoint of this package or, for a model of `PUBLISHED`, of its
    authors' code. Either is read as data; nothing in it is executed.

    Raises:
        ValueError: unknown name, no such file and no way to get it, or a bad file.
    """
    path = find_file(name, folder, data_root) or download(name, folder, data_root)
    logger.info("%s: %s", name, path)
    try:
        return read_pretrained(path)
    except ValueError:
        if name not in PUBLISHED:
            raise
    return convert(path, PUBLISHED[name])


def folders(
    folder: Optional[str] = None, data_root: Optional[str] = None
) -> list[Path]:
    """Where files are looked for, in order; the last one is the cache."""
    root = data_root_folder(DatasetOptions(data_root=data_root))
    places = [folder, os.environ.get(ENVIRONMENT), root / "pretrained"]
    return [Path(place).expanduser() for place in places if place]


def find_file(
    name: str, folder: Optional[str] = None, data_root: Optional[str] = None
) -> Optional[Path]:
    """The file of a model; None if it is in no folder."""
    files = [f"{name}.pt"]
    if name in PUBLISHED:
        files.append(PUBLISHED[name].file)
    for place in folders(folder, data_root):
        for file in files:
            if (place / file).is_file():
                return place / file
    return None


def download(
    name: str, folder: Optional[str] = None, data_root: Optional[str] = None
) -> Path:
    """Fetch a model's file into the cache; it gets its name when it has been checked.

    Several processes may ask at once: one downloads, the others wait.

    Raises:
        ValueError: no checksum is known, nobody answers, or another file comes.
    """
    looked = ", ".join(str(place) for place in folders(folder, data_root))
    if name not in PUBLISHED:
        raise ValueError(
            f"unknown --pretrained-model-name {name!r}: there is no {name}.pt in "
            f"{looked}, and known names are {', '.join(PUBLISHED)}"
        )
    published = PUBLISHED[name]
    path = folders(folder, data_root)[-1] / f"{name}.pt"
    by_hand = f"put its authors' file {published.file} there by hand, as {path}"
    if not published.sha256:
        raise ValueError(
            f"{name} is in none of {looked}, and what {published.address} gives is not "
            f"downloaded, because its checksum is not known: {by_hand}"
        )
    with file_lock(path):
        if path.is_file():
            return path
        logger.info("downloading %s from %s", name, published.address)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as scratch:
            fetched = Path(scratch) / path.name
            try:
                found = _fetch(published.address, fetched)
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise ValueError(
                    f"cannot download {name} from {published.address} ({error}): "
                    f"{by_hand}"
                ) from error
            if found != published.sha256:
                raise ValueError(
                    f"{published.address} is another file than {name} was (sha256 "
                    f"{found}, expected {published.sha256}): {by_hand}"
                )
            os.replace(fetched, path)
    return path


def _fetch(address: str, to: Path) -> str:
    """Download a file; returns its sha256."""
    digest = hashlib.sha256()
    with (
        urllib.request.urlopen(address, timeout=NETWORK_TIMEOUT_S) as answer,
        open(to, "wb") as file,
    ):
        while block := answer.read(1 << 20):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def convert(path: Path, published: Published) -> Pretrained:
    """Read a checkpoint of another code.

    Raises:
        ValueError: it holds no weights, or those of another model.
    """
    # It imports this package's components, which import this module.
    from graphormer_plugin.cli.convert import import_published

    imported = import_published(path, published.source, published.config)
    names = [f"output {number}" for number in range(imported.num_outputs)]
    return Pretrained(
        str(path),
        imported.schema,
        TargetSchema(names),
        {"_name": imported.arch, **imported.options},
        imported.state,
    )
