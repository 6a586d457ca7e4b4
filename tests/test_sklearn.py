"""Estimators of molecules, as scikit-learn and pandas use them."""

import os
import pickle
from datetime import date

import numpy as np
import pandas
import pytest
import torch
from rdkit import Chem
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from graphormer_plugin import hub
from graphormer_plugin.cli import predict
from graphormer_plugin.inference.checkpoint import DEFAULT_START
from graphormer_plugin.inference.loading import load
from graphormer_plugin.sklearn import MoleculeClassifier, MoleculeRegressor
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp
from support.training import forked

# The labels are computed from the molecules.
pytestmark = pytest.mark.filterwarnings("ignore:no noise is found:UserWarning")

ENDS = ("O", "N", "Cl", "C(=O)O", "c1ccccc1", "C#N")
SMILES = [f"{'C' * (1 + i // len(ENDS))}{ENDS[i % len(ENDS)]}" for i in range(24)]
Y = np.array([len(text) + 0.1 * (row % 3) for row, text in enumerate(SMILES)])
NEW = ["CCCCCCO", "OCCO", "c1ccccc1C#N"]
ESTIMATORS = [MoleculeRegressor(), MoleculeClassifier()]


@pytest.fixture(scope="module")
def fitted():
    return MoleculeRegressor(unit="K").fit(SMILES, pandas.Series(Y, name="length"))


def test_equals_the_head_of_the_library(fitted):
    head = fit_gp(DEFAULT_START, SMILES, Y, names=["length"], unit="K")
    predictor = load(DEFAULT_START, head=None)
    raw = {"vectors": np.asarray(predictor.embed(NEW), np.float32)}
    raw |= {name: predictor.read(NEW).features(name) for name in head.molecule_blocks}
    expected = head.predict_features(raw)
    values, std = fitted.predict(NEW, return_std=True)
    np.testing.assert_allclose(values, expected.values[:, 0], rtol=1e-6)
    np.testing.assert_allclose(std, expected.std[:, 0], rtol=1e-5)
    targets = fitted.predictor_.targets
    assert targets.raw() == head.targets
    assert targets.mean == pytest.approx([Y.mean()])
    assert targets.std == pytest.approx([Y.std()])
    assert fitted.score(SMILES, Y) > 0.9


def test_stereo_marks_that_do_not_count(tmp_path):
    """A saved model remembers it."""
    MoleculeRegressor("trees", ignore_stereo=True).fit(SMILES, Y).save(tmp_path / "a")
    loaded = MoleculeRegressor.load(tmp_path / "a")
    forms = ["C[C@H](N)O", "C[C@@H](N)O", "CC(N)O"]
    assert len({*loaded.predictor_.embed(forms)[:, 0].tolist()}) == 1
    given = MoleculeRegressor("trees").fit(SMILES, Y).predictor_
    assert len({*given.embed(forms)[:, 0].tolist()}) > 1


def fit_in_fork():
    MoleculeRegressor().fit(SMILES, Y)
    os._exit(torch.get_num_threads())


def test_a_fork_fits_on_one_thread(fitted):
    """It would wait for the threads that its parent had."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    fitted.predict(NEW)
    process = forked(fit_in_fork)
    torch.set_num_threads(threads)
    process.join(100)
    process.kill()
    assert process.exitcode == 1


def test_trees(tmp_path):
    model = MoleculeRegressor("trees").fit(SMILES, Y)
    values, std = model.predict(NEW, return_std=True)
    model.save(tmp_path / "model")
    other = MoleculeRegressor.load(tmp_path / "model").predict(NEW, return_std=True)
    np.testing.assert_allclose(other, [values, std], rtol=1e-6)
    assert "boosted trees" in repr(model.predictor_) and (std > 0).all()
    assert MoleculeRegressor("auto").fit(SMILES, Y).score(SMILES, Y) > 0.5


@pytest.mark.parametrize("asked, is_log", [(("auto",), 1), (["y"], 1), (["none"], 0)])
def test_skewed_labels(asked, is_log, tmp_path):
    """They are learned as logarithms unless the parameter says otherwise, and a saved model
    predicts in their unit."""
    model = MoleculeRegressor("trees", log_targets=asked).fit(SMILES, 10 ** (Y / 3))
    assert [*map(bool, model.predictor_.scales)] == [is_log]
    assert ("y_low90" in model.predict_table(NEW)) == is_log
    model.save(tmp_path / "model")
    again = MoleculeRegressor.load(tmp_path / "model").predict(NEW)
    assert np.array_equal(again, model.predict(NEW))
    with pytest.raises(ValueError, match="--log-targets z: no such target"):
        MoleculeRegressor("trees", log_targets=["z"]).fit(SMILES, Y)


def test_saved_folder(fitted, tmp_path):
    folder = tmp_path / "model"
    fitted.save(folder)
    values = fitted.predict(NEW)
    others = [
        hub.load(folder).predict(NEW)[:, 0],
        MoleculeRegressor.load(folder).predict(NEW),
        pickle.loads(pickle.dumps(fitted)).predict(NEW),
    ]
    for other in others:
        np.testing.assert_array_equal(other, values)
    table = pandas.DataFrame({"smiles": [*NEW, "C("]})
    table.to_csv(tmp_path / "new.csv", index=False)
    files = [f"{tmp_path}/{name}.csv" for name in ("new", "out")]
    assert predict.main([str(folder), *files]) == 0
    written = pandas.read_csv(tmp_path / "out.csv", keep_default_na=False)
    with pytest.warns(UserWarning, match=r"1 of 4 .* row 3, 'C\('"):
        ours = fitted.predict_table(table.set_index(np.arange(4) * 10))
    assert [*written] == ["smiles", *ours]
    assert [*ours.index] == [0, 10, 20, 30]
    assert [*ours.reason] == [*written.reason] and "start_has_seen" in written
    assert [*ours.start_has_seen[:3]] == [*written.start_has_seen[:3]]
    for name in ("length", "length_std", "in_domain"):
        assert [*ours[name][:3]] == [*map(float, written[name][:3])]
        assert np.isnan(ours[name][30])
    vectors = hub.load(folder).embed(NEW)
    np.testing.assert_allclose(vectors, load(DEFAULT_START).embed(NEW), atol=1e-5)
    with pytest.raises(FileExistsError, match="File exists"):
        fitted.save(folder)
    with pytest.raises(ValueError, match="predicts regression targets"):
        MoleculeClassifier.load(folder)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize(
    "check",
    """check_do_not_raise_errors_in_init_or_set_params check_estimator_cloneable
    check_estimator_repr check_estimator_tags_renamed check_get_params_invariance
    check_mixin_order check_no_attributes_set_in_init
    check_parameters_default_constructible check_set_params
    check_valid_tag_types""".split(),
)
def test_checks_of_scikit_learn(estimator, check):
    """Those that do not fit, since the others fit numbers."""
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)


def test_in_scikit_learn():
    """A fit changes no parameter, and equal seeds give equal models."""
    model = MoleculeRegressor(random_state=3)
    before = model.get_params()
    first, second = (clone(model).fit(SMILES, Y).predict(NEW) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert model.get_params() == before
    with pytest.raises(NotFittedError):
        model.predict(NEW)
    canonical = FunctionTransformer(lambda all: list(map(Chem.CanonSmiles, all)))
    scores = cross_val_score(make_pipeline(canonical, model), SMILES, Y, cv=2)
    assert (scores > 0.3).all()
    frame = pandas.DataFrame({"smiles": SMILES})
    grid = {"regressor__largest_fragment": [False, True]}
    logarithm = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)
    search = GridSearchCV(logarithm, grid, cv=2).fit(frame, pandas.Series(Y))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(pandas.Series(NEW)).shape == (3,)


def test_a_molecule_is_parsed_once(monkeypatch):
    """The given and the canonical spelling are read once, for graph and features."""
    spellings = {smiles: [smiles, Chem.CanonSmiles(smiles)] for smiles in SMILES + NEW}
    parsed, parse = [], Chem.MolFromSmiles

    def count(text, *options):
        parsed.append(text)
        return parse(text, *options)

    monkeypatch.setattr(Chem, "MolFromSmiles", count)
    model = MoleculeRegressor().fit(SMILES, Y)
    assert parsed == [text for smiles in SMILES for text in spellings[smiles]]
    parsed.clear()
    model.predict(NEW)
    assert parsed == [text for smiles in NEW for text in spellings[smiles]]


def test_missing_and_bad_values():
    y = pandas.DataFrame({"a": Y, "all equal": 1.0, "b": -Y})
    y.loc[4:9, "a"] = None
    y.loc[5, "b"] = np.nan
    smiles = [*SMILES[:2], "C(", None, *SMILES[4:]]
    with pytest.warns(UserWarning) as warned:
        model = MoleculeRegressor().fit(smiles, y)
    assert [str(one.message) for one in warned] == [
        "2 of 24 molecules cannot be read (first: row 2, 'C(': SMILES Parse Error: syntax "
        "error while parsing: C()",
        "too few different labels to learn all equal",
    ]
    assert model.left_out_[3] == "no SMILES" and [*model.left_out_] == [2, 3]
    assert (
        len(model.predictor_.member.head) == 21
    )  # nor row 5, whose only label is not learned
    with pytest.warns(UserWarning, match="1 of 4 molecules cannot be read"):
        values = model.predict([*NEW, "C("])
    assert np.isnan(values).tolist() == 3 * [[False, True, False]] + [3 * [True]]
    assert model.score(SMILES, y) > 0.9
    with pytest.raises(ValueError, match="1 of 1 molecules cannot be read"):
        model.set_params(errors="raise").predict(["C("])
    assert model.predict([]).shape == (0, 3)


def test_a_target_called_reason():
    """Neither it nor one called as another's spread is overwritten."""
    y = pandas.DataFrame({"reason": Y, "a": -Y, "a_std": 2 * Y})
    model = MoleculeRegressor().fit(SMILES, y)
    values, std = model.predict(SMILES, return_std=True)
    with pytest.warns(UserWarning, match="1 of 25 molecules"):
        table = model.predict_table([*SMILES, ""])
    names = ["reason", "reason_std", "a", "a_std", "a_std_predicted", "a_std_std"]
    assert [*table] == [*names, "in_domain", "start_has_seen", "reason_predicted"]
    shown = table[["reason", "a", "a_std_predicted"]].to_numpy()[:-1]
    np.testing.assert_allclose(shown, values, rtol=1e-5)
    assert table["reason_predicted"].tolist() == len(SMILES) * [""] + ["no SMILES"]


@pytest.mark.parametrize(
    ("options", "x", "y", "message"),
    [
        ({"errors": "ignore"}, SMILES, Y, "expected coerce or raise"),
        ({"model": "tail"}, SMILES, Y, "tail"),
        ({"epochs": 3}, SMILES, Y, "--epochs: no effect"),
        ({}, SMILES[:3], Y, "3 molecules, but 24 rows of y"),
        ({}, SMILES, 24 * [">100"], "could not convert string to float: '>100'"),
        ({}, SMILES, 24 * [1.0], "fewer than 2 different labels"),
        ({}, SMILES, 23 * [1.0] + [np.inf], "label 23 of y is inf"),
        ({}, SMILES, Y + 1j, "y has labels of type complex, expected numbers"),
        ({}, SMILES, np.arange(24).astype("M8[D]"), "y has labels of type datetime64"),
        ({}, SMILES, 24 * [date(2020, 1, 1)], "y has labels of type date"),
        ({}, np.array([SMILES, SMILES]).T, Y, "X has 2 columns"),
        ({}, [1] * 24, Y, "row 0 of X is 1, expected a SMILES"),
        ({}, "CCO", Y, r"give \['CCO'\]"),
    ],
)
def test_mistakes(options, x, y, message):
    with pytest.raises(ValueError, match=message):
        MoleculeRegressor(**options).fit(x, y)


def test_weights_of_molecules():
    """A molecule of weight 0 is left out, and a heavy one is followed more closely."""
    wrong = Y + 0.0
    wrong[0] += 9
    ones = np.ones(len(SMILES))
    ones[0] = 0
    left_out = MoleculeRegressor().fit(SMILES, wrong, sample_weight=ones)
    without = MoleculeRegressor().fit(SMILES[1:], Y[1:])
    assert left_out.predict(NEW) == pytest.approx(without.predict(NEW))
    errors = []
    for weight in (1, 100):
        ones[0] = weight
        model = MoleculeRegressor().fit(SMILES, wrong, sample_weight=ones)
        errors.append(abs(model.predict(SMILES[:1])[0] - wrong[0]))
    assert errors[1] < errors[0]
    for weights in (ones[1:], -ones):
        with pytest.raises(ValueError, match="sample_weight: expected a number >= 0"):
            MoleculeRegressor().fit(SMILES, Y, sample_weight=weights)


def test_weights_of_classes():
    """Weights are scikit-learn's; if balanced, the rare class is not overruled."""
    rare = np.where(np.arange(len(SMILES)) % 5 == 0, "yes", "no")
    given = {word: len(rare) / (2 * (rare == word).sum()) for word in ("yes", "no")}
    plain, balanced, same, one = (
        MoleculeClassifier(class_weight=weight).fit(SMILES, rare).predict_proba(NEW)
        for weight in (None, "balanced", given, {"yes": 1})
    )
    assert balanced == pytest.approx(same)
    both = np.stack([rare, np.arange(len(SMILES)) % 3], 1)
    with pytest.raises(ValueError, match="expected 3 numbers"):
        MoleculeClassifier(class_weight=given).fit(SMILES, both)
    assert plain == pytest.approx(one)
    assert not np.allclose(balanced, plain, rtol=1e-6)


def test_nothing_else_changes(tmp_path):
    """A fit that fails leaves no model of before; torch's generator stays where it is."""
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    model = MoleculeRegressor(random_state=None).fit(SMILES, Y)
    model.save(tmp_path / "model")
    MoleculeRegressor.load(tmp_path / "model")
    assert torch.equal(torch.random.get_rng_state(), before)
    with pytest.raises(ValueError, match="nothing to learn"):
        model.fit(SMILES, np.ones(len(SMILES)))
    with pytest.raises(NotFittedError):
        model.predict(NEW)


@pytest.mark.parametrize("words", [["low", "high"], [False, True], [3, 1]])
def test_two_classes(words, tmp_path):
    y = np.array(words)[(Y > 5).astype(int)]
    model = MoleculeClassifier().fit(SMILES, y)
    assert model.classes_.tolist() == sorted(words)
    assert model.score(SMILES, y) > 0.9
    probabilities = model.predict_proba(NEW)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    likely = model.classes_[probabilities.argmax(1)]
    np.testing.assert_array_equal(model.predict(NEW), likely)
    model.save(tmp_path / "model")
    again = MoleculeClassifier.load(tmp_path / "model")
    assert [*map(str, again.predict(NEW))] == [
        str(int(x) if words == [False, True] else x) for x in likely
    ]
    again.predictor_.targets = again.predictor_.targets.changed(cut_off=[1.0])
    assert {*again.predict(SMILES)} == {again.classes_[0]}
    with pytest.warns(UserWarning):
        assert pandas.isna(model.predict(["CCO", "C("])).tolist() == [False, True]


def test_several_classes():
    y = np.array(["a", "b", "c"], object)[np.arange(24) % 3]
    y[5] = None
    model = MoleculeClassifier().fit(SMILES, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_proba(NEW).shape == (3, 3)
    assert {*model.predict(SMILES)} <= {"a", "b", "c"}
    scores = cross_val_score(model, SMILES, np.arange(24) % 3, cv=KFold(2))
    assert np.isfinite(scores).all()
    model.fit(SMILES, pandas.DataFrame({"one": y, "two": Y > 5}))
    assert [one.shape for one in model.predict_proba(NEW)] == [(3, 3), (3, 2)]
    assert {*model.predict(SMILES)[:, 0]} <= {"a", "b", "c"}


def test_columns_of_classes():
    columns = [Y > 5, np.arange(24) % 2, np.full(24, np.nan)]
    y = pandas.DataFrame(np.stack(columns, 1), columns=["long", "odd", "empty"])
    with pytest.warns(UserWarning, match="too few different labels to learn empty"):
        model = MoleculeClassifier().fit(SMILES, y)
    probabilities = model.predict_proba(NEW)
    assert [one.shape for one in probabilities] == 3 * [(3, 2)]
    assert model.predict(SMILES).shape == (24, 3)
    assert np.isnan(probabilities[2]).all() and not np.isnan(probabilities[:2]).any()
    assert 0.5 < model.score(SMILES, y) <= 1


def test_fine_tuning(quick, tmp_path):
    """Two models of fairseq-train, which leave no folder and predict from the saved one."""
    options = {"epochs": 1, "ensemble": 2, "device": "cpu"}
    model = MoleculeRegressor("finetune", **options).fit(SMILES, Y)
    values, std = model.predict(NEW, return_std=True)
    assert (std > 0).all()
    model.save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").rglob("*.*"))
    pair = ["checkpoint_best.domain.npz", "checkpoint_best.pt"]
    assert names == sorted([*2 * pair, "models.json", "start.seen.npy"])
    again = hub.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(NEW)[:, 0], values)
    vectors = again.embed(NEW)
    parts = [hub.Predictor([member]).embed(NEW) for member in again.members]
    np.testing.assert_array_equal(vectors, np.concatenate(parts, 1))
    model.predictor_ = hub.Predictor(model.predictor_.members[:1])
    with pytest.raises(ValueError, match="a single trained model has no spread"):
        model.predict(NEW, return_std=True)
