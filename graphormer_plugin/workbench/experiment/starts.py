"""The pre-trained model that an experiment starts from."""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256, home_path
from graphormer_plugin.data.graphs.featurisers import Featuriser, featuriser_named
from graphormer_plugin.data.graphs.smiles import PLAIN, OGBFeaturiser
from graphormer_plugin.finetune.transfer import SIZES
from graphormer_plugin.inference.checkpoint import (
    DEFAULT_START,
    packaged_models,
    read_checkpoint,
    slim,
)
from graphormer_plugin.inference.pretrained import read_pretrained
from graphormer_plugin.models import ARCHITECTURES, list_architectures
from graphormer_plugin.published import checkpoint_of, import_published
from graphormer_plugin.published.names import PUBLISHED, Published, load_pretrained
from graphormer_plugin.workbench.experiment.settings import (
    FINETUNE,
    SCRATCH,
    TREES,
    Settings,
)

START_PATHS = ("finetune_from_model", "pretrained_dir")  # options that are paths


@dataclass(frozen=True)
class Start:
    """Weights that a fine-tuning starts from.

    Attributes:
        options: options of fairseq-train, by name.
        published: its source and configuration if other code published it, else None.
    """

    options: Mapping[str, str]
    path: Path
    arch: str
    layers: int
    published: Published | None = None

    @property
    def name(self) -> str:
        """Name of the packaged or published model, else of the file."""
        return self.options.get("pretrained_model_name") or self.path.name

    @property
    def featuriser(self) -> Featuriser:
        """Reader of the molecules that the weights were trained on."""
        if self.published is not None:
            return PLAIN
        name = read_checkpoint(self.path).state["task_state"].get("featuriser", "")
        return featuriser_named(name)

    @property
    def reads_ogb(self) -> bool:
        """Whether the weights are for graphs with OGB's features."""
        return isinstance(self.featuriser, OGBFeaturiser)

    @property
    def reads_positions(self) -> bool:
        """Whether the weights were trained on graphs with positions."""
        return self.reads_ogb and self.featuriser.positions != "none"

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return file_sha256(self.path)


def find_start(settings: Settings) -> Start | None:
    """The start that the settings name; None for models without start."""
    if settings.model in (SCRATCH, TREES):
        if settings.start:
            raise DatasetError(f"--start has no effect with --model {settings.model}")
        check_arch(settings.arch)
        return None
    name = settings.start or DEFAULT_START
    path = home_path(name)
    published = None
    is_path = os.sep in name or path.suffix == ".pt" or path.exists()
    if is_path and name not in {*packaged_models(), *PUBLISHED}:
        path = path.resolve()
        pretrained = read_pretrained(path)
        flags = {"finetune_from_model": str(path)}
    else:
        pretrained = load_pretrained(name)
        flags = {"pretrained_model_name": name}
        if name not in packaged_models():
            # fairseq-train would look in the data root of the experiment. A link counts as
            # a file of its own folder.
            flags["pretrained_dir"] = os.path.dirname(os.path.abspath(pretrained.path))
        if pretrained.progress is None:
            published = PUBLISHED[name]
    options = pretrained.options
    arch = options["_name"]
    check_arch(arch, f"{pretrained.path}: ")
    if settings.arch not in (Settings.arch, arch):
        raise DatasetError(
            f"--arch {settings.arch}: the start {name} is a {arch}; give --model "
            "scratch for another architecture"
        )
    preset = ARCHITECTURES[arch].options()
    for size in SIZES:
        if size in options and options[size] != preset.get(size):
            flags[size] = options[size]
    layers = int(options["encoder_layers"])
    return Start(flags, Path(pretrained.path), arch, layers, published)


def reads_positions(settings: Settings) -> bool:
    """Whether the models read the positions of ``--positions``; DatasetError for a
    fine-tuning that does not."""
    start = find_start(settings)
    if settings.model == SCRATCH or start is not None and start.reads_positions:
        return True
    if settings.model == FINETUNE or settings.training_flags:
        raise DatasetError(
            f"--positions {settings.positions}: the start {start.name} does not read them; "
            "give --model scratch"
        )
    return False


def start_state(start: Start | None) -> dict[str, Any]:
    """A start as a checkpoint of this package, without the state of its training; None: the
    default one."""
    if start is None or start.published is None:
        path = start.path if start else packaged_models()[DEFAULT_START]
        return slim(read_checkpoint(path).state)
    published = start.published
    imported = import_published(start.path, published.source, published.config)
    return checkpoint_of(imported, imported.targets, published.source)


def check_arch(name: str, where: str = "") -> None:
    """Raise DatasetError for an architecture that this package does not have."""
    if name not in ARCHITECTURES:
        raise DatasetError(
            f"{where}unknown --arch {name}, expected one of {', '.join(list_architectures())}"
        )
