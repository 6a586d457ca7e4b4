"""Checkpoints, read and written as data.

Nothing in a file is executed: torch's safe loader reads tensors, numbers, strings and
plain containers. It always stays on, even if ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is
set. A file that is not a checkpoint of this package is refused in one line.
"""

import contextlib
import errno
import os
import re
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphormer_plugin.choices import UnknownNameError
from graphormer_plugin.data.errors import DatasetError, is_out_of_memory, named_damage
from graphormer_plugin.data.files import PathName, atomic_write
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema

ZIP_START = b"PK\x03\x04"  # torch writes an archive since its version 1.6
IMPORT_HINT = (
    "graphormer-convert --from reads published checkpoints of Graphormer and GRPE"
)
PACKAGED = Path(__file__).parents[1] / "pretrained"  # models that come with the package


class UnreadableFileError(ValueError):
    """A file is damaged, or was not written by ``torch.save``."""


class Progress(NamedTuple):
    """How far a training was.

    Attributes:
        next_epoch: epoch that a resumed training begins or continues, from 1.
        validations_without_gain: validations since the best (see ``--patience``).
        last_validation: metric of the validation at the end of its last epoch; None in
            the middle of an epoch, and without a validation.
    """

    updates: int
    next_epoch: int
    hours: float
    validations_without_gain: int = 0
    last_validation: float | None = None


class Checkpoint(NamedTuple):
    """A checkpoint of this package.

    Attributes:
        state: content of fairseq's file; ``cfg`` is a dict.
    """

    state: dict[str, Any]
    schema: FeatureSchema
    targets: TargetSchema

    @property
    def weights(self) -> dict[str, Tensor]:
        """The model's state dict."""
        return self.state["model"]

    @property
    def arch(self) -> str:
        """The name for ``--arch``."""
        return self.state["cfg"]["model"]["_name"]

    @property
    def epochs(self) -> int:
        """Number of epochs that were begun."""
        # After an epoch the position is the start of the next.
        position = self.state["extra_state"]["train_iterator"]
        return position["epoch"] - (position["iterations_in_epoch"] == 0)

    @property
    def updates(self) -> int:
        """Number of updates."""
        return self.state["optimizer_history"][-1]["num_updates"]

    @property
    def progress(self) -> Progress:
        """How far the training was."""
        extra = self.state["extra_state"]
        waited = [
            value["patience"]["validations_without_gain"]
            for value in extra.values()
            if isinstance(value, Mapping) and value.get("patience")
        ]
        place = extra["train_iterator"]
        return Progress(
            self.updates,
            place["epoch"],
            extra.get("previous_training_time", 0.0) / 3600,
            max(waited, default=0),
            None if place["iterations_in_epoch"] else extra.get("val_loss"),
        )


# The packaged model that graphormer-train starts from where no other is named.
DEFAULT_START = "grpe_minimol"


def packaged_models() -> dict[str, Path]:
    """Checkpoints that come with the package, by name."""
    return {path.stem: path for path in sorted(PACKAGED.glob("*.pt"))}


def checkpoint_path(path: PathName) -> PathName:
    """File of a packaged model, or the path. A packaged name wins over a file in the
    current folder, which ``./NAME`` or a `Path` means."""
    return packaged_models().get(path, path) if isinstance(path, str) else path


def read_checkpoint(path: PathName) -> Checkpoint:
    """Read a checkpoint that was trained or converted with this package; ValueError for
    another or a damaged file. Tensors stay on disk until they are used."""
    path = checkpoint_path(path)
    state = read_file(path)
    task_state = state.get("task_state") if isinstance(state, Mapping) else None
    if not isinstance(task_state, Mapping) or "schema" not in task_state:
        raise ValueError(
            f"{path} is not a checkpoint of graphormer_plugin: other code has written it, "
            f"or it has bare weights; {IMPORT_HINT}"
        )
    with invalid_checkpoint_errors(path):
        checkpoint = Checkpoint(
            state,
            FeatureSchema(**task_state["schema"]),
            TargetSchema.of(**task_state["targets"]),
        )
        # Fails here, not later, if a part is missing.
        _ = checkpoint.arch, checkpoint.epochs, checkpoint.updates, state["cfg"]["task"]
    return checkpoint


@contextlib.contextmanager
def invalid_checkpoint_errors(path: PathName) -> Iterator[None]:
    """ValueError with a line for a file that has a missing or wrong part, see
    `named_damage`, or names what a module of the user registers."""
    with named_damage(f"{path} is damaged, or of another version"):
        try:
            yield
        except UnknownNameError as error:
            raise DatasetError(f"{path}: {error}") from error


def write_file(state: Any, path: PathName, temporary: Path | None = None) -> None:
    """Write plain values and tensors for `read_file`; see `atomic_write`."""
    try:
        with atomic_write(path, temporary=temporary) as file:
            torch.save(state, file)
    except RuntimeError as error:  # torch's, in place of the OSError
        reason = error.__context__ or error
        raise OSError(f"cannot write {path}: {reason}") from error


def read_file(path: PathName, mmap: bool = True) -> Any:
    """Read plain values and tensors that ``torch.save`` has written.

    Allows ``argparse.Namespace`` too, which older checkpoints of fairseq have. With
    ``mmap`` tensors stay on disk until they are used.
    """
    path = Path(path)
    if not path.is_file():  # reading a pipe or a device may never end
        reason = (
            "a folder; name a checkpoint in it" if path.is_dir() else "no such file"
        )
        raise FileNotFoundError(f"{path}: {reason}")
    with open(path, "rb") as file:
        start = file.read(len(ZIP_START))
    archive = start == ZIP_START
    try:
        if archive:
            check_archive(path)
        # torch warns about files of other programs, which are refused below.
        with (
            warnings.catch_warnings(action="ignore"),
            torch.serialization.safe_globals([Namespace]),
        ):
            return torch.load(
                path, map_location="cpu", weights_only=True, mmap=mmap and archive
            )
    except Exception as error:  # torch has no class of its own for a bad file
        # EINVAL: a negative place in a damaged archive, not the disk.
        is_disk = isinstance(error, OSError) and error.errno != errno.EINVAL
        if is_disk or isinstance(error, UnreadableFileError):
            raise
        # Not torch's message: it suggests to turn the safe loader off.
        full = "does not fit into memory" if is_out_of_memory(error) else ""
        text = f"{path} {full or _defect(str(error))}"
        raise UnreadableFileError(text) from error


def check_archive(path: Path) -> None:
    """Raise an error for a damaged archive, whose checksums torch does not compare."""
    with zipfile.ZipFile(path) as file:
        # torch would take the compressed bytes of a memory-mapped tensor for its numbers.
        compressed = any(
            e.compress_type for e in file.infolist() if "/data/" in e.filename
        )
        if compressed or file.testzip():
            raise ValueError("compressed tensors, or a wrong checksum")


def _defect(message: str) -> str:
    """Defect of a file that torch cannot load, and advice."""
    code = re.search(r"GLOBAL ([\w.]{1,80})|TorchScript", message)
    if code:
        return (
            f"holds code or Python objects ({code[1] or 'TorchScript'}); nothing in it was "
            "run or loaded: only tensors, numbers and text are read"
        )
    return "is empty, cut off or damaged, or was not written by torch.save; copy or make it again"


def slim(state: Mapping[str, Any], parts: Sequence[str] = ()) -> dict[str, Any]:
    """A checkpoint without its training state: optimiser, learning rate schedule, and the
    meters of the log. The given state is not modified.

    Args:
        parts: parts of the vectors that heads read, see `joined_vectors`; empty: the parts
            that ``state`` names, if any.
    """
    extra = {}
    for name, value in state["extra_state"].items():
        if isinstance(value, Mapping) and "fingerprint" in value:
            value = {**value, "slim": True}  # the task refuses to resume from it
        if name != "metrics":
            extra[name] = value
    history = {**state["optimizer_history"][-1], "lr_scheduler_state": {}}
    task_state = {**state["task_state"], **({"vectors": [*parts]} if parts else {})}
    task_state.pop("molecules", None)
    return {
        **state,
        "task_state": task_state,
        "last_optimizer_state": None,
        "optimizer_history": [history],
        "extra_state": extra,
    }


def check_output(path: PathName) -> None:
    """Raise OSError if a file exists already, or its folder does not."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists; remove it, or name another file")
