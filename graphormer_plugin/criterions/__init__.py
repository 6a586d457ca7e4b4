"""Losses for graphs; importing this package registers them with fairseq."""

from graphormer_plugin.criterions.l1_loss import L1Loss

__all__ = ["L1Loss"]
