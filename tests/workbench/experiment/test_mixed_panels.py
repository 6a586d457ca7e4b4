"""Panels of numbers and classes: each target is fitted, scored and written as its kind."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.estimators.gp import read_estimator
from graphormer_plugin.estimators.prediction import Prediction
from graphormer_plugin.inference.loading import ensemble
from graphormer_plugin.inference.model_folder import ModelFolder, read_folder
from graphormer_plugin.inference.prediction_columns import prediction_columns
from graphormer_plugin.workbench.experiment import figures
from graphormer_plugin.workbench.experiment.labelled_molecules import SplitLabels
from graphormer_plugin.workbench.experiment.predictions import (
    Run,
    calibration,
    predicted_labels,
    write_models,
    write_predictions,
)
from graphormer_plugin.workbench.experiment.results import (
    all_results,
    difference_error,
    held_out_metrics,
    metric_tables,
    report_numbers,
)
from graphormer_plugin.workbench.experiment.targets import on_scales
from graphormer_plugin.workbench.fitting.fit_gp import limit_warnings
from graphormer_plugin.workbench.fitting.fit_trees import fit_trees
from support.architectures import OGB
from support.heads import features, fitted, labels
from support.labelled_molecules import (
    experiment_of,
    molecules_of,
    settings,
    undrawn,
)

KINDS = ["multiclass", "regression", "binary"]
SCHEMA = TargetSchema.of(["size", "logp", "active"], "", KINDS, num_classes=[3, 0, 0])


@pytest.fixture
def panel(rng):
    """SMILES, features and labels of 60 molecules; some labels are missing."""
    smiles, raw = features(60, rng)
    number = labels(raw, rng)[:, 0]
    classes = np.digitize(raw["vectors"][:, 2], [-0.5, 0.5])
    rare = number > np.quantile(number, 0.85)
    y = np.stack([classes, number, rare], 1)
    y[::7, 1] = y[1::9, 2] = np.nan
    return smiles, raw, y


def test_trees_are_those_of_each_target_alone(panel, rng):
    smiles, raw, y = panel
    description = MoleculeDescription.of(smiles, parents=True)
    weights = rng.uniform(0.5, 2, y.shape)

    def predicted(targets):
        parts = y[:, targets], SCHEMA.select(targets)
        trees = fit_trees(
            raw, description, *parts, trees=5, weights=weights[:, targets]
        )
        return trees.predict_features(raw)

    mixed = predicted([0, 1, 2])
    for target, outputs in enumerate(SCHEMA.outputs):
        alone = predicted([target])
        assert np.array_equal(mixed.values[:, outputs], alone.values)
        np.testing.assert_allclose(mixed.std[:, outputs], alone.std, rtol=1e-12)


def test_heads_are_those_of_each_target_alone_without_scores(panel, tmp_path, rng):
    """A bound leaves out the first stage, by which targets tell of each other."""
    smiles, raw, y = panel
    bounds = np.zeros(y.shape)
    bounds[1, 1] = np.inf
    weights = rng.uniform(0.5, 2, y.shape)
    more = {"bounds": bounds, "weights": weights}
    mixed = fitted(raw, smiles, y, KINDS, [3, 0, 0], **more)
    found = mixed.predict_features(raw)
    for target, outputs in enumerate(SCHEMA.outputs):
        one = {"num_classes": SCHEMA.targets[target].num_classes}
        one |= {name: values[:, [target]] for name, values in more.items()}
        alone = fitted(raw, smiles, y[:, [target]], KINDS[target], **one)
        alone = alone.predict_features(raw)
        np.testing.assert_allclose(found.values[:, outputs], alone.values, rtol=1e-8)
        np.testing.assert_allclose(
            found.std[:, outputs], alone.std, rtol=1e-8, atol=1e-12
        )
    mixed.save(tmp_path / "head.npz")
    read = read_estimator(tmp_path / "head.npz")
    assert read.targets == mixed.targets
    assert np.array_equal(read.predict_features(raw).values, found.values)
    mixed.numbers["noise"] = np.array([1, 1, 1, 0, 1.0])
    assert "no noise is found in y1, beyond" in limit_warnings(mixed)[0]


def test_a_first_stage_has_scores_of_all_outputs(panel):
    smiles, raw, y = panel
    head = fitted(raw, smiles, y, KINDS, [3, 0, 0])
    assert head.first.dual.shape == (60, 5)
    found = head.predict_features(raw)
    np.testing.assert_allclose(found.values[:, :3].sum(1), 1)
    classes = np.delete(found.values, 3, 1)
    assert ((classes > 0) & (classes < 1)).all()


@pytest.fixture
def run(panel):
    smiles, _, y = panel
    rows = {"train": np.arange(20), "valid": np.arange(20, 40)}
    rows["test"] = np.arange(40, 60)
    table = molecules_of(y, smiles, targets=SCHEMA)
    likely = np.full((60, 5), 0.2)
    likely[np.arange(60), y[:, 0].astype(int)] = 0.6
    likely[::4, :3] = 0.6, 0.2, 0.2
    likely[:, 3] = np.nan_to_num(y[:, 1]) + np.linspace(0.4, 0.6, 60)
    likely[:, 4] = np.linspace(0, 1, 60)
    std, in_domain = np.tile(
        [[0.1, 0.1, 0.1, 1, 0.2], [1, 1, 1, 0.7, 0.9]], (60, 1, 1)
    ).swapaxes(0, 1)
    predicted = Prediction(likely, std, in_domain)
    more = {"mean": np.full(5, 0.4), "raw_std": std}
    return Run(SplitLabels(table, rows), predicted, ["a.pt"], **more), y


def number_alone(run):
    """The run with its target of numbers alone."""
    table = run.labels.table
    one = {name: getattr(table, name)[:, [1]] for name in ("labels", "bounds")}
    one["targets"] = SCHEMA.select([1])
    parts = (part[:, 3:4] for part in run.predicted)
    more = {"mean": run.mean[3:4], "raw_std": run.raw_std[:, 3:4]}
    split = SplitLabels(replace(table, **one), run.labels.rows)
    return replace(run, labels=split, predicted=Prediction(*parts), **more)


def test_metrics_are_of_the_kind(run):
    run, y = run
    table = run.labels.table
    results = all_results(table, [run])
    found = held_out_metrics(results)
    test = run.labels.rows["test"]
    active = test[~np.isnan(y[test, 2])]
    values = run.predicted.values
    assert found["logp"]["head"]["mae"] == pytest.approx([0.57], abs=0.01)
    assert found["logp"]["head"]["coverage90"] == [1]
    alone = number_alone(run)
    errors = (
        difference_error(one.labels.table, [one], "mean", target, "rmse")
        for one, target in ((run, 1), (alone, 0))
    )
    assert next(errors) == next(errors)
    expected = roc_auc_score(y[active, 2], values[active, 4])
    assert found["active"]["head"]["roc_auc"] == pytest.approx([expected])
    expected = accuracy_score(y[test, 0], values[test, :3].argmax(1))
    assert found["size"]["head"]["accuracy"] == pytest.approx([expected])
    assert "roc_auc" not in found["logp"]["head"] and "mae" not in found["size"]["head"]
    rows = metric_tables(table, found)["Test molecules"]
    cells = {row[0]: dict(zip(rows[0], row)) for row in rows if row[1] == "head"}
    assert cells["size"]["mae"] == "-" and cells["logp"]["mae"].startswith("0.568")
    tested = predicted_labels(table, [run])
    numbers = report_numbers(table, tested, found)
    assert [one["metric"] for one in numbers["by_kind"]] == [
        "accuracy",
        "nrmse",
        "roc_auc",
    ]
    assert numbers["by_kind"][0]["own"] == pytest.approx(expected)
    of_size, of_logp = (tested[tested.target == target] for target in (0, 1))
    assert set(of_size.error.round(2)) <= {0.4, 0.8}
    assert {*of_logp["std"]} == {1} and {*of_logp.in_domain} == {0.7}
    with undrawn():
        assert figures.confusion_figure(SCHEMA, tested) is not None
        shown = figures.spread_figure(SCHEMA, tested)
        assert [axis.get_title() for axis in shown.axes[:2]] == ["logp", "active"]


def test_columns_are_of_the_kind(run):
    run, _ = run
    schema = SCHEMA.with_classes([[], [], ["no", "yes"]])
    columns = prediction_columns(schema, *run.predicted)
    names = [column.name for column in columns]
    assert names == (
        ["size", "size_std", "logp", "logp_std", "active", "active_std"]
        + [f"size_probability_{number}" for number in range(3)]
        + ["size_in_domain", "logp_in_domain", "active_in_domain", "active_class"]
    )
    cells = {column.name: column.texts for column in columns}
    assert cells["active_class"][0] == "no" and cells["active_class"][-1] == "yes"
    assert cells["size"][4] == "0" and cells["logp_in_domain"][0] == "0.7"


def test_an_ensemble_converts_the_outputs_of_logarithms(run, tmp_path):
    run, y = run
    schema = SCHEMA.changed(name=["size", "log10 logp", "active"])
    values = run.predicted.values
    named = {"extra_columns": [], "max_atoms": 9, "targets": schema, "schema": OGB}
    named |= {"featuriser": OGBFeaturiser(), "head": None}
    member = SimpleNamespace(**named, estimate=lambda *_: Prediction(values[-1:]))
    both = ensemble([member] * 2, ModelFolder([], log_targets=["log10 logp"]))
    expected = np.where(np.arange(5) == 3, 10**values, values)
    np.testing.assert_allclose(both.predict(["C"]), expected[-1:])
    asked = settings("a.csv", log_targets=("logp",))
    table = molecules_of(np.where([0, 1, 0], 10**y, y), targets=SCHEMA)
    table = on_scales(table, SplitLabels(table, run.labels.rows), asked)
    one = replace(run, labels=SplitLabels(table, run.labels.rows), model="trees")
    several = replace(one, comparison=one).in_unit()
    write_predictions(tmp_path, table.in_unit, [several])
    write_models(tmp_path, table, [one])
    alone = number_alone(run)
    scale = calibration(alone.labels.table, [alone])
    folder = read_folder(tmp_path)
    assert folder.spread_scale == {"log10 logp": scale.factor[0]}
    assert folder.scale(schema).factor.tolist() == [1, 1, 1, scale.factor[0], 1]
    found = pd.read_csv(tmp_path / "predictions_test.csv")
    names = ["size_probability_1", "logp_predicted", "logp_trees"]
    columns = expected[run.labels.rows["test"]][:, [1, 3, 3]]
    np.testing.assert_allclose(found[names], columns, rtol=1e-5)


def test_a_network_takes_one_kind(run):
    table, rows = run[0].labels.table, run[0].labels.rows
    with pytest.raises(ValueError, match="several kinds.*train them apart"):
        experiment_of(table, [rows], model="finetune").check()
    twice = replace(table, targets=SCHEMA.select([0, 0, 0]))
    with pytest.raises(ValueError, match="3 targets of classes"):
        experiment_of(twice, [rows], epochs=1).check()


def test_a_kind_is_of_all_targets_or_of_each(read):
    columns = {"a": [0, 1, 2] * 4, "b": [0, 1] * 6}
    asked = {"target_columns": ("a", "b"), "split": "random"}
    table, *_ = read(columns, **asked, target_kind=("multiclass", "binary"))
    assert table.targets.kinds == ["multiclass", "binary"]
    with pytest.raises(DatasetError, match="expected one, or one for each of a, b"):
        read(columns, **asked, target_kind=("binary",) * 3)
