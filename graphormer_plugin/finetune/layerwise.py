"""Learning rates layer by layer, for a step of any optimiser."""

import contextlib
from collections.abc import Iterator
from typing import Any

from fairseq.optim import FairseqOptimizer
from torch import nn


def check_weights_apart(optimizer: FairseqOptimizer) -> None:
    """Raise ValueError if an optimiser has all weights in a flat tensor."""
    if getattr(optimizer, "has_flat_params", False):
        raise ValueError(
            "--layerwise-lr-decay with --fp16 needs --fp16-no-flatten-grads"
        )


@contextlib.contextmanager
def scaled_learning_rates(optimizer: FairseqOptimizer) -> Iterator[None]:
    """Split an optimiser's parameter groups by ``lr_scale`` for a step.

    Between steps the optimiser is as fairseq made it: schedulers set a learning rate,
    and checkpoints do not depend on ``--layerwise-lr-decay``.
    """
    inner = optimizer.optimizer
    groups = inner.param_groups
    split = [(group, part) for group in groups for part in _split(group)]
    inner.param_groups = [part for _, part in split]
    try:
        yield
    finally:
        inner.param_groups = groups
        for group, part in split:  # some optimisers count steps per group
            group.update({k: v for k, v in part.items() if k not in ("params", "lr")})


def _split(group: dict[str, Any]) -> list[dict[str, Any]]:
    by_scale: dict[float, list[nn.Parameter]] = {}
    for parameter in group["params"]:
        overrides = getattr(parameter, "optim_overrides", {})
        scale = overrides.get("optimizer", {}).get("lr_scale", 1.0)
        by_scale.setdefault(scale, []).append(parameter)
    return [
        {**group, "params": params, "lr": group["lr"] * scale}
        for scale, params in by_scale.items()
    ]
