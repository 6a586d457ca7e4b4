"""Predictions of heads, and their files."""

import numpy as np
import pytest

from graphormer_plugin.data.files import read_arrays
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.estimators.gp import read_estimator
from graphormer_plugin.estimators.kernels import weighted_sum
from graphormer_plugin.estimators.prediction import expit
from graphormer_plugin.workbench.fitting.fit_gp import fit_on_features
from graphormer_plugin.workbench.fitting.marginal_likelihood import JITTER
from support.heads import (
    ALL,
    WIDTH,
    features,
    fitted,
    labels,
    molecules,
    predictions_of,
)


def test_classes(rng):
    smiles, raw = features(60, rng, ["vectors"])
    y = (raw["vectors"][:, :1] > 0.3).astype(float)
    y[::7] = np.nan
    head = fitted(raw, smiles, y, "binary")
    other = rng.normal(size=(200, WIDTH)).astype(np.float32)
    found = predictions_of(head, other)
    assert (0 < found.values).all() and (found.values < 1).all()
    truth = other[:, 0] > 0.3
    assert found.values[truth].mean() > 0.7 > 0.3 > found.values[~truth].mean()
    # By sampling the latent value, which the probability is a logistic function of.
    mean, variance, _ = head._latent(next(head.pieces({"vectors": other[:4]})))
    latent = mean + np.sqrt(variance) * rng.normal(size=(4, 100_000))
    numbers = head.numbers
    sampled = 1 / (1 + np.exp(-numbers["slope"] * latent - numbers["intercept"]))
    np.testing.assert_allclose(found.std[:4, 0], sampled.std(1), rtol=0.03)


def test_a_constant_probability_has_a_spread():
    """Labels that no feature explains: the standard error of their share."""
    raw = {"vectors": np.zeros((100, WIDTH), np.float32)}
    y = (np.arange(100) % 4 == 0).astype(float)[:, None]
    found = fitted(raw, molecules(100), y, "binary").predict_features(raw)
    np.testing.assert_allclose(found.values, 0.25)
    np.testing.assert_allclose(found.std, np.sqrt(0.25 * 0.75 / 100), rtol=0.03)


def test_several_classes(rng):
    """One against all others; a class that no molecule has is improbable."""
    smiles, raw = features(90, rng, ["vectors"])
    y = raw["vectors"][:, :3].argmax(1).astype(float)[:, None]
    y[::8] = np.nan
    schema = TargetSchema.of(["taste"], kind="multiclass").with_classes(
        [["bitter", "sour", "sweet", "umami"]]
    )
    description = MoleculeDescription.of(smiles, parents=True)
    head = fit_on_features(raw, description, y, schema, blocks=["vectors"])
    other = rng.normal(size=(200, WIDTH)).astype(np.float32)
    found = predictions_of(head, other)
    assert found.values.shape == found.std.shape == (200, 4)
    np.testing.assert_allclose(found.values.sum(1), 1)
    assert (found.values.argmax(1) == other[:, :3].argmax(1)).mean() > 0.7
    assert found.values[:, 3].max() < 0.1
    with pytest.raises(ValueError, match="label 1 of taste .* expected a class"):
        fit_on_features(raw, description, y + 2, schema, blocks=["vectors"])


def test_further_columns(rng, tmp_path):
    """They join the kernel, are saved with their names, and predictions need them."""
    smiles, raw = features(40, rng, ["vectors"])
    raw["extra"] = rng.normal(size=(40, 2))
    raw["extra"][3, 1] = np.nan
    y = labels(raw, rng) + 3 * raw["extra"][:, :1]
    head = fitted(raw, smiles, y, extra_columns=["pH", "T"])
    head.save(tmp_path / "head.npz")
    again = read_estimator(tmp_path / "head.npz")
    assert again.extra_columns == ["pH", "T"] and not again.molecule_blocks
    new = rng.normal(size=(5, WIDTH)).astype(np.float32), (), rng.normal(size=(5, 2))
    pair = predictions_of(head, *new)[0], predictions_of(again, *new)[0]
    np.testing.assert_array_equal(*pair)
    higher = predictions_of(again, new[0], (), new[2] + [1, 0]).values
    assert (higher > predictions_of(again, *new).values).all()


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_saved_and_read(rng, tmp_path, kind):
    smiles, raw = features(30, rng)
    y = np.concatenate([labels(raw, rng), labels(raw, rng)], 1)
    y[4:9, 1] = np.nan
    if kind == "binary":
        y = np.where(np.isnan(y), np.nan, y > 0)
    schema = TargetSchema.of(["a", "b"], "eV", kind)
    head = fit_on_features(
        raw, MoleculeDescription.of(smiles, parents=True), y, schema, "abc", blocks=ALL
    )
    head.save(tmp_path / "head.npz")
    again = read_estimator(tmp_path / "head.npz", "abc")
    assert again.targets == schema and str(again) == str(head)
    first = predictions_of(head, raw["vectors"], smiles)
    for one, other in zip(first, predictions_of(again, raw["vectors"], smiles)):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="belongs to another checkpoint"):
        read_estimator(tmp_path / "head.npz", "abd")


@pytest.mark.parametrize(
    "name", ["offset", "noise", "weights", "dual", "extra", "labelled"]
)
def test_arrays_of_another_size(rng, tmp_path, name):
    """They are refused, also where numpy would broadcast them."""
    smiles, raw = features(30, rng, ["vectors"])
    raw["extra"] = rng.normal(size=(30, 1))
    y = np.concatenate([labels(raw, rng), labels(raw, rng)], 1)
    y[4:9, 1] = np.nan
    fitted(raw, smiles, y, extra_columns=["pH"]).save(tmp_path / "head.npz")
    arrays = read_arrays(tmp_path / "head.npz")
    arrays[name] = arrays[name][:1]
    np.savez(tmp_path / "head.npz", **arrays)
    with pytest.raises(ValueError, match=rf"head.npz is not a head.*{name} \(1,"):
        read_estimator(tmp_path / "head.npz")


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_joint_by_dense_algebra(rng, kind):
    """k(Z, Z) - k(Z, X) (k(X, X) + N)^-1 k(X, Z), on the scale of the predictions."""
    smiles, raw = features(30, rng)
    y = labels(raw, rng)
    head = fitted(raw, smiles, y if kind == "regression" else (y > 0) * 1.0, kind)
    both = {
        name: np.concatenate([x, x[:9] if name == "fingerprint" else x[:9] * 0.9])
        for name, x in raw.items()
    }
    compared = [head.references[name].compare_among(both[name]) for name in head.blocks]
    full = weighted_sum(head.blocks, compared, head.weights[0], head.lengths[0])
    noise = head.numbers["noise"][0]
    own = full[:30, :30] + (noise + JITTER) * np.eye(30)
    beside = full[30:, :30]
    expected = full[30:, 30:] - beside @ np.linalg.solve(own, beside.T)
    new = {name: x[30:] for name, x in both.items()}
    joint = head.joint(new, 0)
    found = head.predict_features(new)
    if kind == "binary":
        slope = np.full(9, head.numbers["slope"][0])
        np.testing.assert_allclose(expit(joint.mean), found.values[:, 0])
    else:
        slope = found.std[:, 0] / np.sqrt(expected.diagonal() + noise)
        np.testing.assert_allclose(joint.mean, found.values[:, 0])
        total = np.sqrt(joint.covariance.diagonal() + joint.noise)
        np.testing.assert_allclose(total, found.std[:, 0])
    scaled = np.outer(slope, slope) * expected
    np.testing.assert_allclose(joint.covariance, scaled, rtol=0, atol=1e-9)
