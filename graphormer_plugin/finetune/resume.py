"""The last checkpoint of a training, or the newest intact checkpoint if it is damaged."""

import logging
import os
import shutil
from pathlib import Path

from graphormer_plugin.data.files import atomic_write, file_lock
from graphormer_plugin.finetune.transfer import Pretrained, read_pretrained
from graphormer_plugin.inference.checkpoint import UnreadableFileError, read_checkpoint

logger = logging.getLogger(__name__)


def read_last(path: str | os.PathLike[str]) -> Pretrained:
    """Read the last checkpoint of a training.

    A damaged file is kept under another name, and the newest intact checkpoint of its
    folder takes its place. Of several processes, the first replaces it and the others wait.

    Args:
        path: ``checkpoint_last.pt``, which exists.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged and there is no intact checkpoint, or it is not a
            checkpoint of this package.
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
    intact checkpoint with most updates in its folder; ``defect`` is for messages.

    Raises:
        ValueError: there is no intact checkpoint.
    """
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


def copy_checkpoint(source: str | os.PathLike[str], path: Path) -> None:
    """Copy a checkpoint; its new name has the old content or all of the new."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(source, "rb") as file, atomic_write(path, temporary=temporary) as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
