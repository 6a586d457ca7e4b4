"""Distances to the training molecules."""

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data.graphs.smiles import identity_of
from graphormer_plugin.estimators.domain import (
    NEAR,
    Domain,
    MoleculeDescription,
    domain_warnings,
    nearest_distances,
    nearest_of,
    outside_domain,
)
from graphormer_plugin.estimators.gp import read_estimator
from graphormer_plugin.estimators.prediction import Prediction, combined
from graphormer_plugin.inference.prediction_columns import prediction_columns
from support.heads import WIDTH, features, fitted, labels, predictions_of

NO_NUMBERS = (), np.empty((1, 0))  # beside the molecules


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


def test_in_domain_of_several_rows(rng):
    """Rows of a molecule, and what float32 rounds, change nothing."""
    smiles, raw = features(30, rng, ["vectors"])
    description = MoleculeDescription.of(smiles)
    vectors, other = raw["vectors"], rng.normal(size=(50, WIDTH)).astype(np.float32)
    noise = 1e-6 * rng.normal(size=(60, WIDTH))
    once = Domain.of(vectors, description)
    twice = Domain.of(
        np.tile(vectors, (2, 1)) + noise, MoleculeDescription.of(smiles * 2)
    )
    np.testing.assert_allclose(twice.nearest[::2], once.nearest, rtol=1e-4)
    np.testing.assert_allclose(twice.score(other), once.score(other), atol=0.02)
    assert 0 < once.score(other).mean() < 1
    assert (twice.score(vectors) == 1).all() and (once.score(vectors) == 1).all()
    alone = Domain.of(vectors[:1], description[:1])
    assert alone.score(vectors[:3]).tolist() == [1, 0, 0]


def test_in_domain(rng):
    smiles, raw = features(60, rng, ["vectors"])
    head = fitted(raw, smiles, labels(raw, rng))
    far = np.full((1, WIDTH), 30, np.float32)
    found = predictions_of(head, np.concatenate([raw["vectors"], far])).in_domain
    np.testing.assert_allclose(found, [1.0] * 60 + [0.0])
    scaled = head.references["vectors"].scaled
    apart = np.sqrt(((scaled[:, None] - scaled) ** 2).mean(2))
    nearest = (apart + 1e9 * np.eye(60)).min(1)
    np.testing.assert_allclose(head.domain.nearest, np.sort(nearest), rtol=1e-6)
    other = rng.normal(size=(9, WIDTH)).astype(np.float32)
    at = head.references["vectors"].scale(other)
    distances = np.sqrt(((at[:, None] - scaled) ** 2).mean(2)).min(1)
    expected = [np.mean(nearest >= distance) for distance in distances]
    np.testing.assert_allclose(head.domain.score(other), expected)
    description = MoleculeDescription.of(["CCBr", "C" * 40])
    assert head.domain.has_other_size(description).tolist() == [False, True]
    assert 35 not in head.domain.kinds and 6 in head.domain.kinds
    ions = MoleculeDescription.of(["CC[NH3+]", "[O-]C(C)=O.[Na+]"])
    counts = outside_domain([head.domain], ions, np.ones(2), *NO_NUMBERS)
    charges = {"formal_charge 1": 2, "formal_charge -1": 1, "Na": 1}
    assert charges.items() <= counts.items()


def test_in_domain_of_each_target(rng, tmp_path):
    """Where targets have labels of different molecules: as of a head of that target alone,
    before and after saving, and together with a model of one domain."""
    smiles, raw = features(12, rng, ["vectors"])
    y = np.concatenate([labels(raw, rng)] * 3, 1)
    y[:6, 1], y[[0, 3], 2] = np.nan, np.nan
    near = raw["vectors"] + 0.1
    head = fitted(raw, smiles, y)
    found = predictions_of(head, np.concatenate([raw["vectors"], near])).in_domain
    assert found.shape == (24, 3) and (found[6:12] == 1).all()
    assert found[:6, 0].tolist() == [1] * 6 and (found[:6, 1] < 1).all()
    scaled = head.domain.reference.scaled
    of_near = head.domain.reference.scale(near)
    for target in range(3):
        rows = ~np.isnan(y[:, target])
        own = nearest_distances(scaled[rows], scaled[rows], others=True)
        distances = nearest_distances(of_near, scaled[rows])
        shares = (own[:, None] >= distances).mean(0)
        np.testing.assert_allclose(found[12:, target], shares)
    head.save(tmp_path / "head.npz")
    again = predictions_of(read_estimator(tmp_path / "head.npz"), near).in_domain
    assert np.array_equal(again, found[12:])
    one = Prediction(np.zeros((12, 3)), None, np.linspace(0, 1, 12))
    both = combined([one, one._replace(in_domain=found[12:])]).in_domain
    np.testing.assert_allclose(both, (one.in_domain[:, None] + found[12:]) / 2)
    columns = prediction_columns(head.targets, one.values, None, both)
    names = ["y0_in_domain", "y1_in_domain", "y2_in_domain"]
    assert [column.name for column in columns] == ["y0", "y1", "y2", *names]
    description = MoleculeDescription.of(smiles)
    unlike = outside_domain(
        [head.domain], description, np.eye(12)[:, :3] * 0.9, *NO_NUMBERS
    )
    assert unlike["outside"] == 9
    none = Domain.of(
        raw["vectors"], description, np.eye(12, 2, dtype=bool) & [True, False]
    )
    assert none.score(near)[:, 1].tolist() == [0] * 12
    full = fitted(raw, smiles, y[:, :1].repeat(2, 1))
    assert predictions_of(full, near, smiles).in_domain.shape == (12,)


def test_molecules_unlike_the_training_of_all_models():
    """What one model of several has not seen, such as that of a fold, is not unlike."""

    def domain(*smiles):
        return Domain.of(np.eye(len(smiles)), MoleculeDescription.of(smiles))

    domains = [domain("CCBr", "CCCO"), domain("CCCl", "CCCCCO")]
    description = MoleculeDescription.of(["CBr", "CCCBr", "CCCCCN", "CCCCCCC"])
    counts = outside_domain(domains, description, np.ones(4), *NO_NUMBERS)
    assert +counts == {"size": 2, "N": 1}
    assert domain_warnings(counts, domains, 4) == [
        "no training molecule has N (in 1 molecule)",
        "2 molecules smaller or larger than all training molecules, which have 3 to 6 "
        "heavy atoms",
    ]
    assert (
        outside_domain(domains[:1], description, np.ones(4), *NO_NUMBERS)["size"] == 3
    )


def test_fitted_molecules_and_numbers_beyond_their_range(rng, tmp_path):
    """A head remembers both."""
    smiles, raw = features(30, rng, ["vectors"])
    raw["extra"] = np.stack([np.arange(30.0), np.full(30, np.nan)], 1)
    raw["extra"][3, 0] = np.nan
    head = fitted(raw, smiles, labels(raw, rng), extra_columns=["time", "pH"])
    path = tmp_path / "head.npz"
    head.save(path)
    domain = read_estimator(path).domain
    extra = np.array([[29, 7], [29.5, 7], [-1, 7], [np.nan, 7], [0, 7]])
    expected = np.array([0, 1, 1, 0, 0], bool)
    assert np.array_equal(domain.is_beyond(extra).any(1), expected)
    new = {"vectors": raw["vectors"][:5], "extra": extra}
    score = head.predict_features(new).in_domain
    assert np.array_equal(score == 0, expected)
    description = MoleculeDescription.of(["OCC", "CCO", "CCC", "N", smiles[9]])
    counts = outside_domain([domain], description, score, ["time", "pH"], extra)
    first, second, third = domain_warnings(counts, [domain], 5)
    assert first.startswith("the model was fitted to the molecules of 3 of 5 rows: ")
    assert second == "no training molecule has time beyond 0 to 29 (in 2 molecules)"
    assert third.startswith("1 molecule smaller")


def test_elements_atoms_and_identity():
    texts = ["*CO", "[H][H]", "c1ccccc1Cl", "C[C@H](O)F"]
    description = MoleculeDescription.of(texts, parents=True)
    assert [np.flatnonzero(row).tolist() for row in description.kinds] == [
        *([0, 6, 8], [1], [6, 17], [6, 8, 9])
    ]
    assert description.atoms.tolist() == [2, 0, 7, 4]  # a dummy atom is none
    mols = [Chem.MolFromSmiles(text) for text in texts]
    assert description.identity.tolist() == [*map(identity_of, mols)]
    assert max(description.identity) >= 2**63  # none is rounded
    some = description[np.array([False, True, False, True])]
    assert some.identity.tolist() == description.identity[[1, 3]].tolist()
    assert some.parent.tolist() == description.parent[[1, 3]].tolist()


def test_none():
    description = MoleculeDescription.of([])
    assert len(description) == len(description.identity) == len(description.kinds) == 0
    assert description.parent is None and description[[]].parent is None
