"""Losses for graphs; importing this package registers them with fairseq."""

from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.with_flag import L1LossWithFlag

__all__ = ["L1Loss", "L1LossWithFlag"]
