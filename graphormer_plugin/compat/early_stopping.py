"""State of a training that fairseq keeps in its functions: the best metric, ``--patience``."""

import sys
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.logging import progress_bar


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
