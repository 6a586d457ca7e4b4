"""Estimators that are fitted, not trained: Gaussian processes and boosted trees."""

MAX_ROWS = (
    10_000  # molecules of a fit; the solution takes the cube of a target's labels
)
