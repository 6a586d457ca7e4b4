"""Optimisers that fairseq does not have."""

from graphormer_plugin.optim.adam_l2 import AdamL2

__all__ = ["AdamL2"]
