"""Which layer a weight belongs to: frozen layers, and learning rates layer by layer."""

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from fairseq.optim import FairseqOptimizer
from torch import nn

logger = logging.getLogger(__name__)


def check_options(freeze_encoder_layers: int, layerwise_lr_decay: float) -> None:
    """Raise ValueError where a value is out of range."""
    if freeze_encoder_layers < 0:
        raise ValueError(
            f"--freeze-encoder-layers {freeze_encoder_layers}: expected 0 or more"
        )
    if not 0 < layerwise_lr_decay <= 1:
        raise ValueError(
            f"--layerwise-lr-decay {layerwise_lr_decay}: expected above 0, at most 1"
        )


def set_up_layers(model: nn.Module, cfg: Any) -> None:
    """Apply ``freeze_encoder_layers`` and ``layerwise_lr_decay`` to a model.

    Args:
        model: with an ``encoder`` that has a list of ``layers``, if one of the options
            is used.
        cfg: options of the model; without these two nothing happens.

    Raises:
        ValueError: a value out of range, or a model without layers.
    """
    frozen = getattr(cfg, "freeze_encoder_layers", 0)
    decay = getattr(cfg, "layerwise_lr_decay", 1.0)
    check_options(frozen, decay)
    if not frozen and decay == 1:
        return
    number = num_layers(model)
    if not number:
        raise ValueError(
            f"{type(model).__name__} has no encoder layers for "
            "--freeze-encoder-layers and --layerwise-lr-decay"
        )
    if frozen > number:
        raise ValueError(
            f"--freeze-encoder-layers {frozen}, but the encoder has {number} layers"
        )
    for name, parameter in model.named_parameters():
        layer = layer_of(model, name)
        if frozen and layer <= frozen:
            parameter.requires_grad = False
        # The name that fairseq's own models use, which its fp16 optimiser carries over.
        scale = decay ** (number + 1 - layer)
        parameter.optim_overrides = {"optimizer": {"lr_scale": scale}}
    if frozen:
        left = sum(p.numel() for p in model.parameters() if p.requires_grad)
        logger.info(
            "embeddings and %d of %d layers are frozen, %s weights are trained",
            frozen,
            number,
            f"{left:,}",
        )
    if decay != 1:
        logger.info(
            "learning rate: 1 in the head, %g in layer %d, ..., %g in the embeddings, "
            "times --lr",
            decay,
            number,
            decay ** (number + 1),
        )


def num_layers(model: nn.Module) -> int:
    """Encoder layers; 0 where there are none."""
    return len(getattr(getattr(model, "encoder", None), "layers", ()))


def layer_of(model: nn.Module, name: str) -> int:
    """Layer of a weight: 0 embeddings and encodings of all kinds, 1..L the encoder's
    layers with encodings of their own, L + 1 the rest (final norm and head)."""
    number = num_layers(model)
    match = re.match(r"encoder\.(\w+)\.(\d+)\.", name)
    if match:
        siblings = getattr(model.encoder, match[1])
        own = match[1] == "layers" or len(siblings) == number > 1
        if isinstance(siblings, nn.ModuleList) and own:
            return int(match[2]) + 1
    top = name.startswith("encoder.final_norm.") or not name.startswith("encoder.")
    return number + 1 if top else 0


def check_optimizer(optimizer: FairseqOptimizer) -> None:
    """Raise ValueError where an optimiser sees all weights as one flat tensor."""
    if getattr(optimizer, "has_flat_params", False):
        raise ValueError(
            "--layerwise-lr-decay with --fp16 needs --fp16-no-flatten-grads"
        )


@contextlib.contextmanager
def scaled_learning_rates(optimizer: FairseqOptimizer) -> Iterator[None]:
    """For one step, the parameter groups of an optimiser split by ``lr_scale``.

    Outside the optimiser is as fairseq made it: schedulers set one learning rate, and
    checkpoints do not depend on ``--layerwise-lr-decay``.
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
