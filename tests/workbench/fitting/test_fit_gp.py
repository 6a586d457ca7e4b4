"""What a head can be fitted to."""

import numpy as np
import pytest

from graphormer_plugin.workbench.fitting import marginal_likelihood
from graphormer_plugin.workbench.fitting.fit_gp import (
    fit_gp,
    limit_warnings,
    training_sample,
)
from support.heads import features, fitted, labels


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weights": [1.0, 2]}, r"weights have shape \[2\], .* \[3\] or \[3, 2\]"),
        ({"weights": np.ones((2, 3))}, r"weights have shape \[2, 3\], expected"),
        ({"weights": [1, -1, 1]}, "weights must be finite numbers >= 0"),
        ({"bounds": [[1.0, 0, 0], [0, 0, 0]]}, r"in the labels' shape \[3, 2\]"),
        ({"bounds": np.full((3, 2), 1)}, "int64 .* floats .* inf, -inf or half"),
        ({"bounds": np.eye(3, 2), "classes": True}, "must be 0 for classes"),
        ({"extra": {"pH": [7.0] * 6}}, r"extra has shape \[6, 1\], expected \[3, 1\]"),
    ],
)
def test_inputs_that_do_not_fit_the_molecules(options, message):
    labels = [[1.0, 2], [2, 3], [3, 5]]
    with pytest.raises(ValueError, match=message):
        fit_gp("unread.pt", ["C", "CC", "CCC"], labels, **options)


def test_one_class_beside_a_target_of_both(rng):
    smiles, raw = features(30, rng, ["vectors"])
    y = (labels(raw, rng) > 0).astype(float)
    ones = np.ones_like(y)

    def fit(*columns):
        return fitted(raw, smiles, np.concatenate(columns, axis=1), "binary")

    found = fit(ones, y).predict_features(raw).values
    np.testing.assert_allclose(found[:, 0], 31 / 32)
    assert found[y[:, 0] > 0, 1].mean() > found[y[:, 0] < 1, 1].mean() + 0.2
    for columns in ((ones, ones), (np.full_like(y, np.nan), y)):
        with pytest.raises(ValueError, match="target y0 has fewer than 2 different"):
            fit(*columns)


def test_molecules_of_weight_0_are_no_training_molecules():
    y = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, np.nan], [4.0, 5.0]])
    weights = np.array([[1.0, 1.0], [0.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    assert training_sample(y, 1, np.ones(y.shape)).tolist() == [0, 1, 3]
    assert training_sample(y, 1, weights).tolist() == [0, 1]


def test_weights_of_classes(rng):
    """The more a class weighs, the more probable it is."""
    smiles, raw = features(60, rng, ["vectors"])
    y = (raw["vectors"][:, :1] + rng.normal(size=(60, 1)) > 0.5).astype(float)
    heads = [
        fitted(raw, smiles, y, "binary", weights=np.where(y, weight, 1))
        for weight in (1, 3, 9)
    ]
    means = [head.predict_features(raw).values.mean() for head in heads]
    assert means[0] < means[1] < means[2]


def test_limits_of_the_search_are_named(rng):
    """Labels without noise, and labels that are nothing else."""
    smiles, raw = features(60, rng, ["vectors"])
    x = raw["vectors"][:, :1].astype(float)
    y = np.concatenate([x, x + 0.5 * rng.normal(size=x.shape)], 1)
    head = fitted(raw, smiles, y)
    assert limit_warnings(head) == [
        "no noise is found in y0, beyond differences between rows of one molecule: its "
        "labels may be computed, or repeated"
    ]
    head.lengths[1] = marginal_likelihood.LENGTH[0]
    _, line = limit_warnings(head)
    assert line.startswith("each molecule resembles only itself for y1")


def test_one_molecule_with_several_labels():
    """All that is known about others is its mean, and how its labels differ."""
    raw = {"vectors": np.ones((3, 2), np.float32)}
    head = fitted(raw, ["CO"] * 3, np.array([[1.0], [2.0], [3.0]]))
    found = head.predict_features({"vectors": np.zeros((1, 2), np.float32)})
    assert found.values[0, 0] == 2
    assert 0.5 < found.std[0, 0] < 2
