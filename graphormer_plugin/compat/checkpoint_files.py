"""Safe reading and atomic writing of checkpoints, in the place of fairseq's functions."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.data.files import check_claim
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.finetune.resume import copy_checkpoint
from graphormer_plugin.inference.checkpoint import (
    IMPORT_HINT,
    invalid_checkpoint_errors,
    read_file,
    write_file,
)

logger = logging.getLogger(__name__)

# Options of a task that name files to import or to write.
PATH_OPTIONS = ("user_data_dir", "data_root", "results_path", "pretrained_dir")

_fairseq_copy = PathManager.copy
_fairseq_save = checkpoint_utils.torch_persistent_save


def load_checkpoint(
    path: str, arg_overrides: dict[str, Any] | None = None, *_: Any, **__: Any
) -> dict[str, Any]:
    """Read a checkpoint for fairseq to resume from, or to evaluate.

    Paths in its options are dropped: nothing is imported from and written to a folder
    that only the file names. ``arg_overrides`` come from the command line and from
    ``--model-overrides``.
    """
    overrides = arg_overrides or {}
    with one_line_errors():
        # A memory-mapped optimiser state would depend on the file during training.
        state = read_file(PathManager.get_local_path(path), mmap=False)
        with invalid_checkpoint_errors(path):
            # fairseq would convert them to cfg, paths included.
            if state.get("args") is not None:
                raise ValueError(f"options of fairseq before 0.10; {IMPORT_HINT}")
            if state.get("cfg") is not None:
                task = state["cfg"].get("task") or {}
                paths = {name: task[name] for name in PATH_OPTIONS if task.get(name)}
                task.update(dict.fromkeys(paths))
                cfg = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
                overwrite_args_by_name(cfg, overrides)
                state["cfg"] = cfg
                missing = [
                    f"{flag_of(name)} {folder}"
                    for name, folder in paths.items()
                    if name not in overrides
                ]
                if arg_overrides is not None and missing:
                    logger.warning(
                        "paths that %s names are not used; to use them, give %s",
                        path,
                        " ".join(missing),
                    )
            return checkpoint_utils._upgrade_state_dict(state)


def save_checkpoint(state: Any, path: str, async_write: bool = False) -> None:
    """Write a checkpoint: the file has its old content or all of the new content."""
    if async_write or not PathManager.supports_rename(path):
        return _fairseq_save(state, path, async_write)
    with one_line_errors():
        check_claim(Path(path).parent)  # fairseq makes the folder anew without a word
        write_file(state, path, temporary=Path(f"{path}.tmp"))


def check_folder(save_dir: str) -> None:
    """Check that a folder can be written to, without a name that is taken."""
    with one_line_errors():
        os.makedirs(save_dir, exist_ok=True)
        tempfile.TemporaryFile(dir=save_dir).close()


def copy(source: str, path: str, overwrite: bool = False) -> bool:
    """Copy a file for fairseq, completely or not at all."""
    if not PathManager.supports_rename(path):
        return _fairseq_copy(source, path, overwrite)
    with one_line_errors():
        if not overwrite and os.path.exists(path):
            raise FileExistsError(f"{path} exists")
        copy_checkpoint(source, Path(path))
    return True
