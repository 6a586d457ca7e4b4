"""Heads: Gaussian processes on the frozen vectors of a model and on descriptors."""
