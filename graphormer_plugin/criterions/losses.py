"""Losses of single labels, without fairseq: criterions and `pyg.GraphLoss` share them."""

import torch
from torch import Tensor
from torch.nn import functional as F

from graphormer_plugin.data.targets import Kind, TargetSchema

# Losses of values at the scale of training.
VALUE_LOSSES = {"l1": F.l1_loss, "mse": F.mse_loss}


def present_labels(target: Tensor) -> tuple[Tensor, Tensor]:
    """Labels, 0 where missing, and a mask of the same shape, True where present. NaN, or a
    negative integer, is missing."""
    present = ~torch.isnan(target) if target.is_floating_point() else target >= 0
    return target.where(present, 0), present


def label_losses(
    output: Tensor, labels: Tensor, targets: TargetSchema, loss: str
) -> Tensor:
    """Loss of every label, in the shape of the labels: cross-entropy of classes, and of
    numbers one of `VALUE_LOSSES`."""
    return _LOSSES[targets.kind](output, labels, targets, loss)


def _value_losses(
    output: Tensor, labels: Tensor, targets: TargetSchema, loss: str
) -> Tensor:
    values = targets.standardise(labels).to(output.dtype)
    return VALUE_LOSSES[loss](output, values, reduction="none")


def _binary_losses(output: Tensor, labels: Tensor, *_: object) -> Tensor:
    labels = labels.to(output.dtype)
    return F.binary_cross_entropy_with_logits(output, labels, reduction="none")


def _class_losses(output: Tensor, labels: Tensor, *_: object) -> Tensor:
    flat = labels.flatten().long()
    losses = F.cross_entropy(output.flatten(0, -2), flat, reduction="none")
    return losses.view(labels.shape)


_LOSSES = {
    Kind.REGRESSION: _value_losses,
    Kind.BINARY: _binary_losses,
    Kind.MULTICLASS: _class_losses,
}
