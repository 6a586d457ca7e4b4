"""Panels of numbers and classes: each target is fitted, scored and written as its kind."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.head import read_head
from graphormer_plugin.estimators.molecule_facts import MoleculeFacts
from graphormer_plugin.estimators.prediction import Prediction
from graphormer_plugin.inference.loading import ensemble
from graphormer_plugin.inference.model_folder import ModelFolder
from graphormer_plugin.inference.prediction_columns import prediction_columns
from graphormer_plugin.workbench.experiment import figures
from graphormer_plugin.workbench.experiment.predictions import (
    Run,
    predicted_labels,
    write_predictions,
)
from graphormer_plugin.workbench.experiment.results import (
    all_results,
    held_out_metrics,
    metric_tables,
    report_numbers,
)
from graphormer_plugin.workbench.experiment.split_labels import SplitLabels
from graphormer_plugin.workbench.fitting.fit_trees import fit_trees
from support.architectures import OGB
from support.heads import features, fitted, labels
from support.labelled_molecules import experiment_of, molecules_of, undrawn

KINDS = ["regression", "binary", "multiclass"]
SCHEMA = TargetSchema.of(["logp", "active", "size"], "", KINDS, num_classes=[0, 0, 3])


@pytest.fixture
def panel(rng):
    """SMILES, features and labels of 60 molecules; some labels are missing."""
    smiles, raw = features(60, rng)
    number = labels(raw, rng)[:, 0]
    classes = np.digitize(raw["vectors"][:, 2], [-0.5, 0.5])
    y = np.stack([number, number > 0.3, classes], 1).astype(float)
    y[::7, 0] = y[1::9, 1] = np.nan
    return smiles, raw, y


def test_trees_are_those_of_each_target_alone(panel):
    smiles, raw, y = panel
    facts = MoleculeFacts.of(smiles, parents=True)
    mixed = fit_trees(raw, facts, y, SCHEMA, trees=5).predict_features(raw)
    for target, outputs in enumerate(SCHEMA.outputs):
        own = SCHEMA.select([target])
        alone = fit_trees(raw, facts, y[:, [target]], own, trees=5)
        alone = alone.predict_features(raw)
        assert np.array_equal(mixed.values[:, outputs], alone.values)
        assert np.array_equal(mixed.std[:, outputs], alone.std)


def test_heads_are_those_of_each_target_alone_without_scores(panel, tmp_path):
    """A bound leaves out the first stage, by which targets tell of each other."""
    smiles, raw, y = panel
    bounds = np.zeros(y.shape, np.int8)
    bounds[1, 0] = 1
    mixed = fitted(raw, smiles, y, KINDS, num_classes=[0, 0, 3], bounds=bounds)
    found = mixed.predict_features(raw)
    for target, outputs in enumerate(SCHEMA.outputs):
        one = {"num_classes": SCHEMA.targets[target].num_classes}
        one |= {"bounds": bounds[:, [target]]}
        alone = fitted(raw, smiles, y[:, [target]], KINDS[target], **one)
        alone = alone.predict_features(raw)
        np.testing.assert_allclose(found.values[:, outputs], alone.values, rtol=1e-8)
        np.testing.assert_allclose(
            found.std[:, outputs], alone.std, rtol=1e-8, atol=1e-12
        )
    mixed.save(tmp_path / "head.npz")
    read = read_head(tmp_path / "head.npz")
    assert read.targets == mixed.targets
    assert np.array_equal(read.predict_features(raw).values, found.values)


def test_a_first_stage_has_scores_of_all_outputs(panel):
    smiles, raw, y = panel
    head = fitted(raw, smiles, y, KINDS, num_classes=[0, 0, 3])
    assert head.first.dual.shape == (60, 5)
    found = head.predict_features(raw)
    np.testing.assert_allclose(found.values[:, 2:].sum(1), 1)
    assert ((found.values[:, 1:] > 0) & (found.values[:, 1:] < 1)).all()


@pytest.fixture
def run(panel):
    smiles, _, y = panel
    rows = {"train": np.arange(30), "valid": np.arange(30, 40)}
    rows["test"] = np.arange(40, 60)
    table = molecules_of(y, smiles, targets=SCHEMA)
    likely = np.full((60, 5), 0.2)
    likely[np.arange(60), 2 + y[:, 2].astype(int)] = 0.6
    likely[::4, 2:] = 0.6, 0.2, 0.2
    likely[:, 0] = np.nan_to_num(y[:, 0]) + 0.5
    likely[:, 1] = np.linspace(0, 1, 60)
    predicted = Prediction(likely, np.ones((60, 5)), np.ones(60))
    return Run(SplitLabels(table, rows), predicted, [], np.full(5, 0.4)), y


def test_metrics_are_of_the_kind(run):
    run, y = run
    table = run.labels.table
    results = all_results(table, [run])
    found = held_out_metrics(results)
    test = run.labels.rows["test"]
    active = test[~np.isnan(y[test, 1])]
    values = run.predicted.values
    assert found["logp"]["head"]["mae"] == pytest.approx([0.5])
    expected = roc_auc_score(y[active, 1], values[active, 1])
    assert found["active"]["head"]["roc_auc"] == pytest.approx([expected])
    expected = accuracy_score(y[test, 2], values[test, 2:].argmax(1))
    assert found["size"]["head"]["accuracy"] == pytest.approx([expected])
    assert "roc_auc" not in found["logp"]["head"] and "mae" not in found["size"]["head"]
    rows = metric_tables(table, found)["Test molecules"]
    cells = {row[0]: dict(zip(rows[0], row)) for row in rows if row[1] == "head"}
    assert cells["size"]["mae"] == "-" and cells["logp"]["mae"].startswith("0.500")
    tested = predicted_labels(table, [run])
    numbers = report_numbers(table, tested, found)
    assert [one["metric"] for one in numbers["by_kind"]] == [
        "nrmse",
        "roc_auc",
        "accuracy",
    ]
    assert numbers["by_kind"][2]["own"] == pytest.approx(expected)
    of_size = tested[tested.target == 2]
    assert set(of_size.error.round(2)) <= {0.4, 0.8}
    with undrawn():
        assert figures.confusion_figure(SCHEMA, tested) is not None
        shown = figures.spread_figure(SCHEMA, tested)
        assert [axis.get_title() for axis in shown.axes[:2]] == ["logp", "active"]


def test_columns_are_of_the_kind(run):
    run, _ = run
    schema = SCHEMA.with_classes([[], ["no", "yes"], []])
    columns = prediction_columns(schema, *run.predicted)
    names = [column.name for column in columns]
    assert names == (
        ["logp", "logp_std", "active", "active_std", "size", "size_std"]
        + [f"size_probability_{number}" for number in range(3)]
        + ["in_domain", "active_class"]
    )
    cells = {column.name: column.cells for column in columns}
    assert cells["active_class"][0] == "no" and cells["active_class"][-1] == "yes"
    assert cells["size"][4] == "0"


def test_an_ensemble_converts_the_outputs_of_logarithms(run, tmp_path):
    run, y = run
    schema = SCHEMA.select([2, 0]).changed(name=["size", "log10 logp"])
    values = run.predicted.values[:, [2, 3, 4, 0]]
    facts = {"extra_columns": [], "max_atoms": 9, "targets": schema, "schema": OGB}
    facts |= {"featuriser": OGBFeaturiser()}
    member = SimpleNamespace(**facts, estimate=lambda *_: Prediction(values[-1:]))
    both = ensemble([member] * 2, ModelFolder([], log_targets=["log10 logp"]))
    expected = np.append(values[:, :3], 10 ** values[:, 3:], 1)
    np.testing.assert_allclose(both.predict(["C"]), expected[-1:])
    table = molecules_of(y[:, [2, 0]], targets=schema, logs=[1])
    split = SplitLabels(table, run.labels.rows)
    one = Run(split, Prediction(values), [], model="trees")
    write_predictions(tmp_path, table, [replace(one, beside=one)], 0)
    found = pd.read_csv(tmp_path / "predictions_test.csv")
    names = ["size_probability_1", "logp_predicted", "logp_trees"]
    columns = expected[run.labels.rows["test"]][:, [1, 3, 3]]
    np.testing.assert_allclose(found[names], columns, rtol=1e-5)


def test_a_network_takes_one_kind(run):
    table, rows = run[0].labels.table, run[0].labels.rows
    with pytest.raises(ValueError, match="several kinds.*train them apart"):
        experiment_of(table, [rows], model="finetune").check()
    twice = replace(table, targets=SCHEMA.select([2, 2, 2]))
    with pytest.raises(ValueError, match="3 targets of classes"):
        experiment_of(twice, [rows], epochs=1).check()
