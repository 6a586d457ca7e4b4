"""Published models by name: find, download and read their files."""

import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import (
    check_hash,
    download_file,
    file_lock,
    home_path,
)
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.inference.checkpoint import packaged_models
from graphormer_plugin.inference.pretrained import Pretrained, read_pretrained
from graphormer_plugin.published import import_published
from graphormer_plugin.published._shared import read_weights
from graphormer_plugin.published.huggingface import (
    PCQM4MV2_SHA256,
    WEIGHTS,
    is_folder,
    read_folder,
)

logger = logging.getLogger(__name__)

ENVIRONMENT = "GRAPHORMER_PRETRAINED_DIR"
NONE = "none"  # Graphormer v2's word for no model


@dataclass(frozen=True)
class Published:
    """A published model.

    Attributes:
        address: URL of the file, or of the page that has it; empty where nobody publishes
            it any more.
        source: the code that wrote it, a choice of ``graphormer-convert --from``.
        config: options that the weights do not show, as for ``graphormer-convert
            --config``.
        by_hand: whether the address is a page, from which a browser downloads the file.
        other: URL of the same weights, if the first does not answer.
        sha256: checksum of the file at ``address``; empty if it is not known.
    """

    file: str
    address: str
    source: str = "microsoft-graphormer"
    config: Mapping[str, Any] = field(default_factory=dict)
    by_hand: bool = False
    other: str = ""
    sha256: str = ""


HUB = "https://huggingface.co/clefourrier/graphormer-base-{}/resolve/{}/{}"
# The folder that GRPE's README names; its scripts name the files.
GRPE = "https://drive.google.com/drive/folders/1Oc3Ox0HAoJ5Hrihfp5-jFvStPIfFQAf9"

# Names and files of Graphormer v2's own table, whose addresses answer no more: two are at
# Hugging Face, one of these at a revision and with a checksum that are known. And the files
# that GRPE's scripts load (hiv.sh, pcba.sh, pretrained.py), without checksums.
PUBLISHED = {
    "pcqm4mv1_graphormer_base": Published(
        "checkpoint_best_pcqm4mv1.pt",
        HUB.format("pcqm4mv1", "main", WEIGHTS[0]),
        other=HUB.format("pcqm4mv1", "refs%2Fpr%2F1", WEIGHTS[1]),
    ),
    "pcqm4mv2_graphormer_base": Published(
        "checkpoint_best_pcqm4mv2.pt",
        HUB.format("pcqm4mv2", "662d78215c8c8b2313837765b4b7f0d98b594a7e", WEIGHTS[0]),
        other=HUB.format("pcqm4mv2", "refs%2Fpr%2F4", WEIGHTS[1]),
        sha256=PCQM4MV2_SHA256,
    ),
    "pcqm4mv1_graphormer_base_for_molhiv": Published(
        "checkpoint_base_preln_pcqm4mv1_for_hiv.pt", ""
    ),
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
    name: str,
    folder: str | None = None,
    data_root: str | None = None,
    node_index: str | None = None,
) -> Pretrained:
    """Weights and vocabularies of a published model, or of a user's, by name.

    The name of a model that comes with the package means that model. Otherwise ``NAME.pt``,
    or the authors' name of the file, is looked for in ``folder``, in
    ``$GRAPHORMER_PRETRAINED_DIR`` and in ``pretrained`` below the data root, and a model of
    `PUBLISHED` is downloaded. The file is a checkpoint of this package or, for a model of
    `PUBLISHED`, of its authors' code. A folder with ``config.json`` is one of Hugging
    Face's; ``node_index`` chooses the preprocessing of a Graphormer. Nothing in a file is
    executed.
    """
    chosen = {"node_index": node_index} if node_index else {}
    place = home_path(name)
    published = PUBLISHED.get(name)
    if is_folder(place):
        return _converted(place, "huggingface", chosen)
    if chosen and (published is None or published.source != Published.source):
        raise ValueError(
            f"--node-index {node_index} only works with a published Graphormer or a folder "
            f"with config.json, got {name}"
        )
    path = find_file(name, folder, data_root)
    if path is None and published is None and place.is_dir():
        read_folder(place, chosen)  # says what the folder lacks
    path = path or download(name, folder, data_root)
    logger.info("%s: %s", name, path)
    try:
        return read_pretrained(path)
    except ValueError:
        if published is None:
            raise
    return _converted(path, published.source, {**published.config, **chosen})


def _converted(path: Path, source: str, config: Mapping[str, Any]) -> Pretrained:
    imported = import_published(path, source, config)
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
    if not published.address:
        raise ValueError(
            f"{name} is in none of {looked}, and nobody publishes it any more: put "
            f"{published.file}, Microsoft's file, there"
        )
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
            f"{published.address}: put this file, or {published.file}, there by hand, as "
            f"{path}"
        )
        with named_damage(text, keep=()):
            try:
                download_file(published.address, fetched)
            except OSError:
                if not published.other:
                    raise
                logger.info("%s; %s instead", published.address, published.other)
                download_file(published.other, fetched)
            else:
                check_hash(fetched, "sha256", published.sha256)
            read_weights(fetched)
        os.replace(fetched, path)
    return path
