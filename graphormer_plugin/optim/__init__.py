"""Optimisers that fairseq does not have, and a schedule that can be resumed."""

from graphormer_plugin.optim.adam_l2 import AdamL2
from graphormer_plugin.optim.adamw import AdamW
from graphormer_plugin.optim.plateau import ReduceLROnPlateau

__all__ = ["AdamL2", "AdamW", "ReduceLROnPlateau"]
