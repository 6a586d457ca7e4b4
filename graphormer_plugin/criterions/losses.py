"""Losses of single labels, without fairseq: criterions and `pyg.GraphLoss` share them."""

import torch
from torch import Tensor
from torch.nn import functional as F

# Losses of values at the scale of training.
VALUE_LOSSES = {"l1": F.l1_loss, "mse": F.mse_loss}


def present_labels(target: Tensor) -> tuple[Tensor, Tensor]:
    """Labels, 0 where missing, and a mask of the same shape, True where present. NaN, or a
    negative integer, is missing."""
    present = ~torch.isnan(target) if target.is_floating_point() else target >= 0
    return target.where(present, 0), present


def binary_losses(output: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of logits, in the shape of the labels 0 and 1."""
    labels = labels.to(output.dtype)
    return F.binary_cross_entropy_with_logits(output, labels, reduction="none")


def class_losses(output: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of logits [..., classes], in the shape of the labels, int64 [...]."""
    losses = F.cross_entropy(output.flatten(0, -2), labels.flatten(), reduction="none")
    return losses.view(labels.shape)
