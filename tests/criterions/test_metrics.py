"""Metrics against OGB's evaluators, and what is said where they are undefined."""

import logging
import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics

from graphormer_plugin.criterions.evaluation import Evaluation
from graphormer_plugin.criterions.log import (
    OutputsMeter,
    log_accuracy,
    log_mean_error,
    log_ranking,
    on_cpu,
)
from graphormer_plugin.criterions.metrics import (
    average_precision,
    metric_names,
    roc_auc,
)


def test_one_copy_of_all_logs(monkeypatch):
    """A GPU is waited for once; "meta" would have no values."""
    vector, number = torch.arange(3, dtype=torch.float64), torch.tensor(2.5)
    logs = [{"hits": vector, "loss": number, "ntokens": 1}, {"loss": number}]
    copies, cpu = [], torch.Tensor.cpu
    counted = lambda tensor: copies.append(1) or cpu(tensor)  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    one, other = on_cpu(logs)
    assert len(copies) == 1
    assert torch.equal(one["hits"], vector) and one["ntokens"] == 1
    assert one["loss"] == other["loss"] == 2.5 and one["loss"].shape == ()
    assert on_cpu([{"ntokens": 1}]) == [{"ntokens": 1}]


@pytest.fixture
def tasks(rng):
    """300 rows of 8 tasks, a fifth missing, ties; the last task has one class only."""
    target = (rng.random((300, 8)) < 0.3).astype(float)
    target[rng.random(target.shape) < 0.2] = np.nan
    target[:, 7] = 0.0
    scores = np.round(rng.standard_normal(target.shape), 1).astype(np.float32)
    return scores, target


def evaluation_of(scores, targets, graphs=None):
    result = Evaluation()
    graphs = range(len(scores)) if graphs is None else graphs
    result.add(torch.tensor(graphs), torch.tensor(scores), torch.tensor(targets))
    return result


@pytest.mark.parametrize(
    "function, dataset, key",
    [(roc_auc, "ogbg-molsider", "rocauc"), (average_precision, "ogbg-molpcba", "ap")],
)
def test_ranking_equals_ogb(ogb, tasks, function, dataset, key):
    scores, targets = tasks
    evaluator = ogb.graphproppred.Evaluator(dataset)
    evaluator.num_tasks = targets.shape[1]
    expected = evaluator.eval({"y_true": targets, "y_pred": scores})[key]
    assert function(scores, targets) == pytest.approx(expected, abs=1e-12)


def test_errors_equal_ogb(ogb, rng):
    target, output = rng.standard_normal((2, 200, 3))
    error = np.abs(output - target)
    with metrics.aggregate(new_root=True) as values:
        for rows in np.array_split(np.arange(200), 7):
            size = torch.full((3,), float(len(rows)))
            total, squares = error[rows].sum(0), (error[rows] ** 2).sum(0)
            log_mean_error("mae", ["a", "b", "c"], torch.tensor(total), size)
            log_mean_error("rmse", [*"abc"], torch.tensor(squares), size, root=True)
    values = values.get_smoothed_values()
    evaluator = ogb.lsc.PCQM4Mv2Evaluator()
    for column, name in enumerate("abc"):
        pair = {"y_true": target[:, column], "y_pred": output[:, column]}
        expected = evaluator.eval(pair)["mae"]
        assert values[f"mae_{name}"] == pytest.approx(expected, abs=1e-12)
    evaluator = ogb.graphproppred.Evaluator("ogbg-molesol")
    evaluator.num_tasks = 3
    expected = evaluator.eval({"y_true": target, "y_pred": output})["rmse"]
    assert values["rmse"] == pytest.approx(expected, abs=1e-12)


def test_single_targets_are_logged_at_the_end_of_a_split_only():
    """Not after every update nor in the lines between, as fairseq nests them."""
    names = [f"t{index}" for index in range(200)]
    with metrics.aggregate("split", new_root=True) as split:
        for update in range(1, 4):
            totals = torch.arange(200.0) * update
            with metrics.aggregate("lines") as lines, metrics.aggregate() as step:
                log_mean_error("mae", names, totals, torch.ones(200))
                assert step.get_smoothed_values() == {"mae": 99.5 * update}
            if update == 2:
                assert lines.get_smoothed_values() == {"mae": 1.5 * 99.5}
                metrics.reset_meters("lines")
    values = split.get_smoothed_values()
    assert list(values) == ["mae", *(f"mae_{name}" for name in names)]
    assert [values[f"mae_{name}"] for name in names] == [2.0 * k for k in range(200)]


def test_names_of_metrics_are_words_and_stay_different():
    assert metric_names(["gap (eV)", "mu/D", "α"]) == ["gap_eV", "mu_D", "α"]
    for columns in (["a/b", "a b"], ["a", "%"]):
        assert metric_names(columns) == columns


def test_accuracy_equals_ogb(ogb, rng):
    target = rng.integers(0, 2, (100, 3)).astype(float)
    target[rng.random(target.shape) < 0.3] = np.nan
    output = rng.integers(0, 2, (100, 3)).astype(float)
    evaluator = ogb.graphproppred.Evaluator("ogbg-ppa")
    evaluator.num_tasks = 3
    expected = evaluator.eval({"y_true": target, "y_pred": output})["acc"]
    with metrics.aggregate(new_root=True) as values:
        for rows in np.array_split(np.arange(100), 4):
            hits = (output[rows] == target[rows]).sum(0)
            labelled = (~np.isnan(target[rows])).sum(0)
            log_accuracy(torch.tensor(hits), torch.tensor(labelled))
    assert values["accuracy"].fn(values) == pytest.approx(expected, abs=1e-12)


def test_one_class_only_is_undefined_and_says_so(caplog):
    scores, targets = np.zeros((4, 1), np.float32), np.zeros((4, 1))
    assert math.isnan(roc_auc(scores, targets))
    assert "roc_auc is undefined: the target has labels of only one" in caplog.text
    assert math.isnan(average_precision(scores, np.full((4, 1), np.nan)))
    assert "ap is undefined" in caplog.text


def test_targets_that_are_left_out_are_counted(tasks, caplog):
    with caplog.at_level(logging.INFO):
        roc_auc(*tasks)
    assert "mean over 7 of 8 targets" in caplog.text


def test_rank_of_nodes(tasks, fresh_fairseq):
    """Batches have their own padding, which is not ranked; a graph counts once."""
    scores, targets = (array.reshape(30, 10, 8) for array in tasks)
    small = slice(0, 12)
    targets[small, 6:] = np.nan  # padding
    with metrics.aggregate(new_root=True) as split:
        for rows, nodes in ((small, 6), (slice(9, 12), 6), (slice(12, 30), 10)):
            graphs = np.arange(30)[rows]
            arrays = (scores[rows, :nodes], targets[rows, :nodes])
            log_ranking(evaluation_of(*arrays, graphs))
    values = split.get_smoothed_values()
    assert values["roc_auc"] == roc_auc(*tasks)
    assert values["ap"] == average_precision(*tasks)


def test_a_diverged_model_has_no_rank(tasks, caplog):
    scores, targets = tasks
    scores[~np.isnan(targets[:, 2]), 2] = np.nan
    assert math.isnan(roc_auc(scores, targets))
    assert "an output is not finite" in caplog.text


def test_batches_are_not_ranked_alone(tasks, monkeypatch, fresh_fairseq):
    """Like fairseq's trainer, it nests an aggregator per batch in that of the split."""
    scores, targets = tasks
    calls = []
    compute = OutputsMeter.compute

    def counted(self, function):
        if function.__name__ not in self.cache:
            calls.append(function.__name__)
        return compute(self, function)

    monkeypatch.setattr(OutputsMeter, "compute", counted)
    with metrics.aggregate(new_root=True) as split:
        for rows in np.array_split(np.arange(300), 5):
            with metrics.aggregate("valid") as kept, metrics.aggregate() as batch:
                log_ranking(evaluation_of(scores[rows], targets[rows], rows))
            assert "roc_auc" not in batch.get_smoothed_values()
            assert not kept.state_dict()  # it goes into checkpoints
    values = split.get_smoothed_values()
    assert values == split.get_smoothed_values()
    assert values["roc_auc"] == roc_auc(scores, targets)
    assert values["ap"] == average_precision(scores, targets)
    assert sorted(calls) == ["average_precision", "roc_auc"]
    # as fairseq-validate: one aggregator beside the default one
    with metrics.aggregate() as split:
        log_ranking(evaluation_of(scores, targets))
    assert split.get_smoothed_values() == values
    metrics.reset()
