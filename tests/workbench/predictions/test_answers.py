"""Answers of models, by level."""

import numpy as np

from graphormer_plugin.estimators.prediction import Estimate
from graphormer_plugin.workbench.predictions.answers import Answer


def test_numbers_of_parts_are_finite_too():
    parts = [np.zeros((3, 3)), np.full((2, 3), np.inf), np.zeros((0, 3))]
    values = np.array([[1.0], [2.0], [3.0], [np.nan]])
    answer = Answer(Estimate(values), [*parts, parts[0]])
    assert answer.is_finite.tolist() == [True, False, True, False]
    kept = answer.select(answer.is_finite)
    assert kept.prediction.values.tolist() == [[1.0], [3.0]]
    assert [len(part) for part in kept.of_parts] == [3, 0]
