"""Distances to the nearest training molecules with a label."""

import numpy as np
import pytest

from graphormer_plugin.heads.domain import NEAR, nearest_of


@pytest.mark.parametrize("share", [0.5, 0.02])
@pytest.mark.parametrize("count", [1, 3, NEAR, NEAR + 1, 500])
def test_nearest_labelled_is_that_of_a_loop(rng, count, share):
    """Also where none of the nearest molecules has a label, and where none at all has."""
    squares = rng.random((9, count)).round(2)  # with ties
    squares[rng.random(squares.shape) < 0.1] = np.inf  # no neighbour of itself
    labelled = rng.random((count, 20)) < share
    labelled[:, 3], labelled[:, 4] = False, labelled[:, 5]
    expected = np.full((9, 20), np.inf)
    for molecule, row in enumerate(squares):
        for target in range(20):
            for other in np.flatnonzero(labelled[:, target]):
                expected[molecule, target] = min(expected[molecule, target], row[other])
    assert np.array_equal(nearest_of(squares, labelled), expected)
    assert np.array_equal(nearest_of(squares, None), squares.min(1))
