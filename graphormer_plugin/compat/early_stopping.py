"""Save and restore the state of ``--patience``, which fairseq's checkpoints lack."""

import sys
from collections.abc import Callable
from typing import Any


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
