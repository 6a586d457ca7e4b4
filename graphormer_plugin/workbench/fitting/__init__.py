"""Fit the `estimators`: Gaussian processes, trees, and the calibration of their spreads."""
