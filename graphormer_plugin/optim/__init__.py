"""Optimisers that fairseq does not have."""

from graphormer_plugin.optim.adam_l2 import AdamL2
from graphormer_plugin.optim.adamw import AdamW

__all__ = ["AdamL2", "AdamW"]
