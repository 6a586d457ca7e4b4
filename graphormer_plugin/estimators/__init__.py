"""Estimators that are fitted, not trained: Gaussian processes and boosted trees."""

# Molecules of a fit; the solution takes the cube of a target's labels.
MAX_ROWS = 10_000
