"""Heads: Gaussian processes on the frozen vectors of a model and on descriptors."""

MAX_ROWS = (
    10_000  # molecules of a fit; the solution takes the cube of a target's labels
)
