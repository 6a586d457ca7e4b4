"""The prediction of Gaussian processes as a sum over blocks and training molecules."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from graphormer_plugin.inference.member import HeadVectors
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.predictor import Predictor


@dataclass
class PredictionSum:
    """Mean over the members of ``m0 + sum_i alpha_i k(x, x_i)``, a number on the scale that
    models learn or the logit of a probability.

    Attributes:
        of_block: its part by block of features.
        of_molecule: its part by training molecule, under the bytes of its Morgan counts
            (without these of its vectors).
    """

    constant: float = 0.0
    of_block: Counter[str] = field(default_factory=Counter)
    of_molecule: Counter[bytes] = field(default_factory=Counter)

    @property
    def total(self) -> float:
        """The number itself."""
        return self.constant + sum(self.of_block.values())


def prediction_sum(
    predictor: Predictor, molecules: Molecules, output: int, extra: np.ndarray
) -> PredictionSum:
    """The sum for an output and a single molecule, at numbers ``extra`` [1, columns]; heads of
    all members are Gaussian processes."""
    result = PredictionSum()
    vectors: HeadVectors = {}
    count = len(predictor.members)
    for member in predictor.members:
        features = member.features(molecules, 1, extra, vectors)
        constant, addends = member.head.addends(features, output)
        known = member.head.known_features
        result.constant += constant / count
        for name, value in zip(member.head.blocks, addends.sum(1) / count):
            result.of_block[name] += value
        rows = known.get("fingerprint", known["vectors"])
        for row, value in zip(rows, addends.sum(0) / count, strict=True):
            result.of_molecule[row.tobytes()] += value
    return result
