"""Scales on which models learn labels: as they are, as logarithms, as logits."""

import math
from enum import StrEnum
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import is_missing


class Scale(StrEnum):
    """A rising function of labels, which models learn in their place. Its value begins the
    name of such a target.

    A logit is log10(y / (1 - y / top)), which is the logarithm for an infinite top.
    """

    IDENTITY = ""
    LOG = "log10 "
    LOGIT = "logit "
    PERCENT = "logit% "

    @classmethod
    def of(cls, name: str) -> "Scale":
        """The scale of a learned target, by its name."""
        return next(scale for scale in [*cls][::-1] if name.startswith(scale))

    @property
    def top(self) -> float:
        """Labels are below it, and above 0."""
        return {Scale.LOGIT: 1.0, Scale.PERCENT: 100.0}.get(self, math.inf)

    def has(self, labels: np.ndarray) -> np.ndarray:
        """Which labels are on the scale; a missing one is."""
        inside = (labels > 0) & (labels < self.top)
        return inside | is_missing(labels) | (self is Scale.IDENTITY)

    def forward(self, labels: np.ndarray) -> np.ndarray:
        """What is learned of labels that are on the scale."""
        return np.log10(labels / (1 - labels / self.top)) if self else labels

    def inverse(self, values: Any) -> Any:
        """The labels of learned values; inf beyond float64."""
        with np.errstate(over="ignore", divide="ignore"):
            return 1 / (10**-values + 1 / self.top) if self else values

    def likelihood(self, labels: np.ndarray) -> float:
        """Mean log likelihood of labels whose learned values are normal, with the derivative
        of `forward` (Box and Cox 1964), but for a constant."""
        slopes = math.log(10) * labels * (1 - labels / self.top) if self else 1.0
        return float(-np.log(self.forward(labels).std()) - np.mean(np.log(slopes)))
