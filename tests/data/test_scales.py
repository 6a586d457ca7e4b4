"""Scales on which models learn labels."""

import numpy as np
import pytest

from graphormer_plugin.data.scales import Scale


@pytest.mark.parametrize("scale", [*Scale])
def test_a_scale(scale):
    """It rises, goes back, and its slope is that of a small step."""
    labels = np.array([1e-4, 0.03, 0.5, 0.9, 0.9999]) * min(scale.top, 1e9)
    learned = scale.forward(labels)
    assert (np.diff(learned) > 0).all() and scale.has(np.append(labels, np.nan)).all()
    np.testing.assert_allclose(scale.inverse(learned), labels, rtol=1e-9)
    step = 1e-6 * labels * (1 - labels / scale.top)
    slope = (scale.forward(labels + step) - scale.forward(labels - step)) / step / 2
    normal = -np.log(learned.std())
    expected = normal + np.log(slope).mean()
    assert scale.likelihood(labels) == pytest.approx(expected, abs=1e-4)
    assert Scale.of(scale + "y") is scale
    assert (
        scale is Scale.IDENTITY or not scale.has(np.array([0.0, -1, scale.top])).any()
    )


@pytest.mark.filterwarnings("error")
def test_beyond_floats():
    assert Scale.LOG.inverse(np.array([400.0])) == np.inf
    assert Scale.PERCENT.inverse(np.array([-1e4, 1e4])).tolist() == [0, 100]
