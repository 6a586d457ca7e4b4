"""Boosted trees as arrays: beside LightGBM's own predictions, and as a file."""

import warnings

import lightgbm
import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.estimators.gp import read_estimator
from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.estimators.trees import feature_table
from graphormer_plugin.workbench.fitting.fit_trees import MEMBERS, fit_trees

SMILES = [start + "C" * k for start in ("O", "N", "Cl") for k in range(1, 25)]
MOLS = [Chem.MolFromSmiles(smiles) for smiles in SMILES]
LENGTHS = np.array([[float(len(smiles))] for smiles in SMILES])


@pytest.fixture(scope="module")
def raw():
    return {n: molecule_features(n, MOLS) for n in ("fingerprint", "descriptors")}


def fit(raw, labels, kind="regression", **options):
    classes = 4 if kind == "multiclass" else 0
    names = [f"y{at}" for at in range(labels.shape[1])]
    schema = TargetSchema.of(names, kind=kind, num_classes=classes)
    return fit_trees(
        raw, MoleculeDescription.of(MOLS), labels, schema, trees=20, **options
    )


def test_sums_are_those_of_lightgbm(raw, monkeypatch):
    """Also where descriptors are missing, or differ in the last bit of float32."""
    raw = {name: values.copy() for name, values in raw.items()}
    raw["descriptors"] = raw["descriptors"].astype(np.float32)
    raw["descriptors"][::3, :20] = np.nan
    bits = LENGTHS.argsort(0).argsort(0).astype(np.int32)
    raw["descriptors"][:, 20:] = (bits + 10**9).view(np.float32)
    boosters = {}
    train = lightgbm.train

    def remember(options, *arguments):
        booster = boosters[options["seed"]] = train(options, *arguments)
        return booster

    monkeypatch.setattr(lightgbm, "train", remember)
    trees = fit(raw, LENGTHS)
    table = feature_table(raw, ())
    found = trees.sums(table)[:, :, 0]
    expected = [boosters[seed].predict(table, raw_score=True) for seed in range(1, 6)]
    assert found.shape == (len(SMILES), MEMBERS) and np.ptp(found) > 1
    np.testing.assert_allclose(found.T, expected, rtol=1e-12, atol=1e-12)


def test_other_molecules_are_within_the_spread(raw):
    labels = LENGTHS + np.random.default_rng(1).normal(0, 2, LENGTHS.shape)
    learned = np.arange(len(SMILES)) % 2 == 0
    trees = fit(raw, np.where(learned[:, None], labels, np.nan))
    values, std, in_domain = trees.predict_features(raw)
    errors = np.abs(values - labels)[~learned]
    assert errors.mean() < 0.5 * np.abs(labels - labels.mean()).mean()
    assert 0.6 < (errors < 1.645 * std[~learned]).mean() and std.max() < 8
    assert in_domain.shape == (len(SMILES),)


@pytest.mark.parametrize("offset, unit", [(0, 1e-9), (1e7, 1), (-1e9, 1)])
def test_labels_of_any_size(raw, offset, unit):
    expected = fit(raw, LENGTHS).predict_features(raw)
    found = fit(raw, LENGTHS * unit + offset).predict_features(raw)
    values = (found.values - offset) / unit
    # A label beside a large offset has fewer digits: splits that tie may go another way.
    np.testing.assert_allclose(values, expected.values, atol=0.05)
    np.testing.assert_allclose(found.std / unit, expected.std, rtol=0.05)


def test_several_classes(raw):
    """A label without weight is not seen; classes that are not seen have chance 0."""
    labels = np.array([["ONC".index(smiles[0])] for smiles in SMILES], float)
    labels[1] = np.nan
    learned = np.where(np.arange(len(SMILES))[:, None] % 2, np.nan, labels)
    values = fit(raw, learned, "multiclass").predict_features(raw).values
    np.testing.assert_allclose(values.sum(1), 1)
    assert (values.argmax(1)[3::2] == labels[3::2, 0]).mean() > 0.9
    assert not values[:, 3].any()
    weights = np.where(labels == 1, 0.0, 1.0)
    values = (
        fit(raw, learned, "multiclass", weights=weights).predict_features(raw).values
    )
    assert not values[:, 1].any()


def test_targets_without_labels_that_count(raw):
    labels = np.tile(LENGTHS, 4)
    labels[:, 1] = np.nan
    labels[3:, 2] = np.nan
    labels[:3, 2] = 4
    weights = np.ones(labels.shape)
    weights[:, 3] = 0
    with warnings.catch_warnings(action="error"):
        values, std, _ = fit(raw, labels, weights=weights).predict_features(raw)
    assert np.isnan(values[:, [1, 3]]).all() and (values[:, 2] == 4).all()
    assert not np.isnan(values[:, 0]).any() and (std[:, 2] == 0).all()
    classes = np.stack([np.arange(len(SMILES)) % 2, np.ones(len(SMILES))], 1)
    values = fit(raw, classes, "binary").predict_features(raw).values
    assert (values[:, 1] == 1).all()


def test_the_file_predicts_the_same(raw, tmp_path):
    extra = np.arange(len(SMILES), dtype=float)[:, None]
    raw = raw | {"extra": extra}
    trees = fit(raw, LENGTHS, extra_columns=["pH"], digest="of a checkpoint")
    trees.save(tmp_path / "head.npz")
    found = read_estimator(tmp_path / "head.npz", "of a checkpoint")
    for ours, theirs in zip(found.predict_features(raw), trees.predict_features(raw)):
        np.testing.assert_array_equal(ours, theirs)
    assert found.extra_columns == ["pH"] and found.typical_extra == extra.mean()
    beyond = raw | {"extra": extra + 1000}
    assert not found.predict_features(beyond).in_domain.any()
    with pytest.raises(ValueError, match="belongs to another checkpoint"):
        read_estimator(tmp_path / "head.npz", "of another")


def changed(splits, name, value):
    splits[name] = value
    return splits


@pytest.mark.parametrize(
    "name, change",
    [
        ("splits", lambda x: x[:2]),
        ("splits", lambda x: changed(x, "feature", 10**9)),
        ("splits", lambda x: changed(x, "lost", 2**30)),
        ("leaves", lambda x: x[:, :, :, :1]),
        ("offset", lambda x: x.repeat(3)),
    ],
)
def test_a_planted_file_is_refused(raw, tmp_path, name, change):
    """A feature that no molecule has, and molecules without a leaf, among others."""
    fit(raw, LENGTHS).save(tmp_path / "head.npz")
    with np.load(tmp_path / "head.npz") as file:
        arrays = dict(file)
    arrays[name] = change(arrays[name])
    np.savez(tmp_path / "head.npz", **arrays)
    with pytest.raises(ValueError, match=r"head\.npz is not a head, or damaged"):
        read_estimator(tmp_path / "head.npz")
