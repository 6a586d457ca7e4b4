"""Published models by name: find, download and read their files."""

import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import download_file, file_lock, home_path
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.inference.checkpoint import packaged_models, read_file
from graphormer_plugin.inference.pretrained import Pretrained, read_pretrained
from graphormer_plugin.published import import_published

logger = logging.getLogger(__name__)

ENVIRONMENT = "GRAPHORMER_PRETRAINED_DIR"
NONE = "none"  # Graphormer v2's word for no model


@dataclass(frozen=True)
class Published:
    """A published model.

    Attributes:
        address: URL of the file, or of the page that has it.
        source: the code that wrote it, a choice of ``graphormer-convert --from``.
        config: options that the weights do not show, as for ``graphormer-convert
            --config``.
        by_hand: whether the address is a page, from which a browser downloads the file.
    """

    file: str
    address: str
    source: str = "microsoft-graphormer"
    config: Mapping[str, Any] = field(default_factory=dict)
    by_hand: bool = False


MICROSOFT = "https://ml2md.blob.core.windows.net/graphormer-ckpts"
# The folder that GRPE's README names; its scripts name the files.
GRPE = "https://drive.google.com/drive/folders/1Oc3Ox0HAoJ5Hrihfp5-jFvStPIfFQAf9"

# Names and addresses of Graphormer v2's own table, and the files that GRPE's scripts load
# (hiv.sh, pcba.sh, pretrained.py); their authors publish no checksums.
PUBLISHED = {
    name: Published(f"{file}.pt", f"{MICROSOFT}/{file}.pt")
    for name, file in {
        "pcqm4mv1_graphormer_base": "checkpoint_best_pcqm4mv1",
        "pcqm4mv2_graphormer_base": "checkpoint_best_pcqm4mv2",
        "pcqm4mv1_graphormer_base_for_molhiv": "checkpoint_base_preln_pcqm4mv1_for_hiv",
    }.items()
} | {
    name: Published(f"{name}.pt", GRPE, "lenscloth-grpe", {"nhead": 32}, by_hand=True)
    for name in (
        "pcqm4m_pretrained_standard",
        "pcqm4m_pretrained_standard_underfit",
        "pcqm4m_pretrained_large",
        "pcqm4mv2_pretrained_standard",
    )
}


def load_pretrained(
    name: str, folder: str | None = None, data_root: str | None = None
) -> Pretrained:
    """Weights and vocabularies of a published model, or of a user's, by name.

    The name of a model that comes with the package means that model. Otherwise ``NAME.pt``,
    or the authors' name of the file, is looked for in ``folder``, in
    ``$GRAPHORMER_PRETRAINED_DIR`` and in ``pretrained`` below the data root, and a model of
    `PUBLISHED` is downloaded. The file is a checkpoint of this package or, for a model of
    `PUBLISHED`, of its authors' code. Nothing in a file is executed.
    """
    path = find_file(name, folder, data_root) or download(name, folder, data_root)
    logger.info("%s: %s", name, path)
    try:
        return read_pretrained(path)
    except ValueError:
        if name not in PUBLISHED:
            raise
    published = PUBLISHED[name]
    imported = import_published(path, published.source, published.config)
    options = {"_name": imported.arch, **imported.options}
    described = imported.schema, imported.targets, options
    return Pretrained(str(path), *described, imported.state)


def folders(folder: str | None = None, data_root: str | None = None) -> list[Path]:
    """Folders to search, in order; the last is the cache."""
    root = DatasetOptions(data_root=data_root).root
    places = [folder, os.environ.get(ENVIRONMENT), root / "pretrained"]
    return [home_path(place) for place in places if place]


def find_file(
    name: str, folder: str | None = None, data_root: str | None = None
) -> Path | None:
    """The file of a model; None if no folder has it."""
    if name in packaged_models():
        return packaged_models()[name]
    files = [f"{name}.pt", *([PUBLISHED[name].file] if name in PUBLISHED else [])]
    for place in folders(folder, data_root):
        for file in files:
            if (place / file).is_file():
                return place / file
    return None


def download(
    name: str, folder: str | None = None, data_root: str | None = None
) -> Path:
    """Download a model's file into the cache; it gets its name once it could be read. Of
    several processes, the first downloads and the others wait."""
    looked = ", ".join(str(place) for place in folders(folder, data_root))
    if name not in PUBLISHED:
        raise ValueError(
            f"unknown pre-trained model {name!r}: there is no {name}.pt in "
            f"{looked}, and known names are {', '.join([*packaged_models(), *PUBLISHED])}"
        )
    published = PUBLISHED[name]
    if published.by_hand:
        raise ValueError(
            f"{name} is in none of {looked}: download {published.file} by hand from "
            f"{published.address} and put it there"
        )
    path = folders(folder, data_root)[-1] / f"{name}.pt"
    with file_lock(path), tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        if path.is_file():
            return path
        logger.info("downloading %s from %s", name, published.address)
        fetched = Path(scratch) / published.file
        text = (
            f"{name} is in none of {looked}, and cannot be downloaded from "
            f"{published.address}: put its authors' file {published.file} there by "
            f"hand, as {path}"
        )
        with named_damage(text, keep=()):
            download_file(published.address, fetched)
            read_file(fetched)
        os.replace(fetched, path)
    return path
