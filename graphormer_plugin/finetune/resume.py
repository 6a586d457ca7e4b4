"""The last checkpoint of a training, or the newest intact checkpoint if it is damaged; and
what a run must have in common with it."""

import logging
import shutil
from pathlib import Path

from omegaconf import DictConfig

from graphormer_plugin.data.files import PathName, atomic_write, file_lock
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.finetune.transfer import targets_text
from graphormer_plugin.inference.checkpoint import UnreadableFileError, read_checkpoint
from graphormer_plugin.inference.pretrained import (
    COMPONENTS,
    Pretrained,
    read_pretrained,
)
from graphormer_plugin.models import GraphModel

logger = logging.getLogger(__name__)


def read_last(path: PathName) -> Pretrained:
    """Read the last checkpoint of a training.

    A damaged file is kept under another name, and the newest intact checkpoint of its
    folder takes its place. Of several processes, the first replaces it and the others wait.
    """
    path = Path(path)
    try:
        return read_pretrained(path)
    except UnreadableFileError:
        with file_lock(path):
            try:
                return read_pretrained(path)
            except UnreadableFileError as error:
                replace_damaged(path, str(error))
    return read_pretrained(path)


def replace_damaged(path: Path, defect: str) -> None:
    """Replace a damaged checkpoint, of which a copy gets the suffix ``.damaged``, by the
    intact checkpoint with most updates in its folder; ``defect`` is for messages."""
    intact = {}
    for other in sorted(path.parent.glob("checkpoint*.pt")):
        try:
            checkpoint = read_checkpoint(other)
        except ValueError:
            continue
        has_optimizer = checkpoint.state.get("last_optimizer_state") is not None
        intact[other] = has_optimizer, checkpoint.updates
    if not intact:
        raise ValueError(
            f"{defect}; no intact checkpoint lies beside it: remove it to train anew"
        )
    best = max(intact, key=intact.get)
    aside = path.with_name(f"{path.name}.damaged")
    # A copy: a kill between two renames would leave no last checkpoint at all.
    copy_checkpoint(path, aside)
    copy_checkpoint(best, path)
    logger.warning(
        "%s; it is kept as %s, and training goes on from %s (%s updates)",
        defect,
        aside.name,
        best,
        f"{intact[best][1]:,}",
    )


def check_components(start: Pretrained, run: DictConfig) -> None:
    """Raise ValueError where a run resumes with another optimiser, schedule or loss than its
    checkpoint has, whose state fairseq reads; ``run`` has fairseq's options."""
    if run.checkpoint.reset_optimizer:
        return
    names = [*COMPONENTS]
    if run.checkpoint.reset_lr_scheduler:
        names.remove("lr_scheduler")
    different = [
        f"{flag_of(name)} {run[name]._name} (there {start.components[name]})"
        for name in names
        if start.components.get(name) not in (None, run[name]._name)
    ]
    if different:
        raise ValueError(
            f"{start.path} was trained with other components than this run: "
            f"{', '.join(different)}; resume with the same, or give --reset-optimizer"
        )


def check_weights(start: Pretrained, model: GraphModel, targets: TargetSchema) -> None:
    """Raise ValueError where the weights of a checkpoint do not fit the model that resumes
    it: its targets, descriptors or vocabularies are others."""
    here, there = (
        {name: list(tensor.shape) for name, tensor in weights.items()}
        for weights in (model.state_dict(), start.weights)
    )
    for name in {**there, **here}:
        if here.get(name) != there.get(name):
            raise ValueError(
                f"{start.path} has other weights than this run, such as {name}: "
                f"{there.get(name, 'none')} there, {here.get(name, 'none')} here (targets "
                f"there {targets_text(start.targets)}, here {targets_text(targets)}); "
                "resume with the same data, or start from its weights with "
                "--finetune-from-model and another --save-dir"
            )


def copy_checkpoint(source: PathName, path: Path) -> None:
    """Copy a checkpoint; its new name has the old content or all of the new."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(source, "rb") as file, atomic_write(path, temporary=temporary) as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
