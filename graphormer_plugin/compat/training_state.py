"""State of a training that fairseq forgets, or keeps in its functions: best metric, patience."""

import sys
from collections.abc import Callable
from typing import Any, ClassVar

from fairseq import checkpoint_utils
from fairseq.logging import progress_bar
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule


def _early_stopping() -> Callable[..., bool] | None:
    """fairseq's function behind ``--patience``, which counts in its own attributes."""
    for name in ("fairseq_cli.train", "__main__"):
        function = getattr(sys.modules.get(name), "should_stop_early", None)
        if function is not None:
            return function
    return None


def patience_state() -> dict[str, Any]:
    """Best metric and validations since then; empty before the first validation."""
    function = _early_stopping()
    if not hasattr(function, "best"):
        return {}
    return {"best": function.best, "validations_without_gain": function.num_runs}


def restore_patience(state: dict[str, Any]) -> None:
    """Let ``--patience`` go on counting from `patience_state`."""
    function = _early_stopping()
    if function is not None and state:
        function.best = state["best"]
        function.num_runs = state["validations_without_gain"]


def forget_last_training() -> None:
    """Drop the state of a training before in this process, such as a job of
    ``fairseq-hydra-train --multirun``: its best metric, patience and TensorBoard files.
    """
    for function in (checkpoint_utils.save_checkpoint, _early_stopping()):
        if hasattr(function, "best"):
            del function.best
    progress_bar._close_writers()
    progress_bar._tensorboard_writers.clear()


class ReduceLROnPlateau(ReduceLROnPlateauLRSchedule):
    """fairseq's `reduce_lr_on_plateau`, with the same rates in a resumed training.

    fairseq's checkpoints lack the number of validations without a gain, and are saved
    before the schedule has seen the last validation.
    """

    # Metric of the last validation before the checkpoint that this process resumes.
    last_validation: ClassVar[float | None] = None
    _unseen: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """State for `load_state_dict`."""
        waited = {"num_bad_epochs": self.lr_scheduler.num_bad_epochs}
        return super().state_dict() | waited

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of a checkpoint."""
        super().load_state_dict(state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict["num_bad_epochs"]
        self._unseen = self.last_validation

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """End an epoch; fairseq's trainer calls it without a metric when it resumes."""
        if val_loss is None:
            val_loss = self._unseen
        self._unseen = None
        return super().step(epoch, val_loss)
