"""The choice between a head and trees by validation molecules."""

from dataclasses import replace

import numpy as np
import pytest

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.prediction import Prediction
from graphormer_plugin.workbench.experiment.fit import choose, trees_are_better
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FEW_TESTED,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.predictions import Run
from support.labelled_molecules import experiment_of, molecules_of

SPLIT = dict(zip(("train", "valid", "test"), np.arange(180).reshape(3, 60)))


def runs_of(kind, errors, count=1):
    """Runs of a head and of trees with standard errors of this size beside it, by different
    noise; on the test molecules the trees are wrong."""
    rng = np.random.default_rng(3)
    labels = np.stack([np.arange(180) % 7, np.arange(180) % 5], 1).astype(float)
    if kind != "regression":
        labels = (labels > 2).astype(float)
    if kind == "multiclass":
        labels = labels[:, :1]
    table = molecules_of(labels, kind=kind)
    runs = []
    for _ in range(count):
        exact = np.eye(2)[labels[:, 0].astype(int)] if kind == "multiclass" else labels
        head, trees = (exact + rng.normal(0, size, exact.shape) for size in errors)
        trees[SPLIT["test"]] += 9 * (1 - 2 * exact[SPLIT["test"]])
        if kind == "multiclass":
            head, trees = (np.exp(x) / np.exp(x).sum(1)[:, None] for x in (head, trees))
        split = SplitLabels(table, SPLIT)
        beside = Run(split, Prediction(trees), ["b.pt"], model="trees")
        runs.append(Run(split, Prediction(head), ["a.pt"], comparison=beside))
    return runs


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_trees_are_chosen_where_they_are_clearly_better(kind):
    assert trees_are_better(runs_of(kind, (1.5, 0.3)), 1)
    assert not trees_are_better(runs_of(kind, (0.3, 1.5)), 1)
    assert not trees_are_better(runs_of(kind, (0.8, 0.8)), 1)


def test_each_kind_has_its_own_metric():
    """Of two classes the ROC-AUC, which a threshold does not change."""
    labels = np.stack([np.arange(180) % 3, np.arange(180) % 2], 1)
    kinds = {"kind": ["multiclass", "binary"], "num_classes": [3, 0]}
    table = molecules_of(labels, targets=TargetSchema.of(["a", "b"], **kinds))
    exact = table.targets.output_labels(table.labels)
    head = np.where(np.arange(180)[:, None] % 2, exact, exact[:, [1, 2, 0, 3]])
    split = SplitLabels(table, SPLIT)
    beside = Run(split, Prediction(exact * [1, 1, 1, 0.4]), [])
    assert trees_are_better([Run(split, Prediction(head), [], comparison=beside)], 1)


def test_runs_count_together():
    """A difference that is noise in one of them."""
    assert not trees_are_better(runs_of("regression", (1.0, 0.93)), 1)
    assert trees_are_better(runs_of("regression", (1.0, 0.93), 40), 1)


def test_copies_are_no_further_molecules():
    """With each row four times the standard error stays, and with it the choice."""
    for errors, better in (((1.0, 0.82), False), ((1.0, 0.7), True)):
        (run,) = runs_of("regression", errors)
        run.labels.rows = SPLIT | {"valid": np.repeat(SPLIT["valid"], 4)}
        assert trees_are_better([run], 1) == better


@pytest.mark.parametrize("count", [FEW_TESTED - 1, FEW_TESTED])
def test_few_validation_molecules_choose_nothing(count):
    """Stereoisomers, of which each has four here, are one molecule."""
    (run,) = runs_of("regression", (1.5, 0.1))
    table = replace(run.labels.table, parents=[row // 4 for row in range(180)])
    rows = SPLIT | {"valid": np.arange(60, 60 + 4 * count)}
    run = replace(run, labels=SplitLabels(table, rows))
    assert trees_are_better([run], 1) == (count == FEW_TESTED)


def test_without_validation_molecules_nothing_is_chosen():
    (run,) = runs_of("regression", (1.5, 0.3))
    run.labels.rows = SPLIT | {"valid": np.array([], int)}
    assert not trees_are_better([run], 1)


def test_what_is_chosen_has_the_other_beside():
    runs = runs_of("regression", (1.5, 0.3))
    split = [runs[0].labels.rows]
    table = runs[0].labels.table
    asked = experiment_of(table, split)
    (run,), experiment = choose(runs, asked)
    assert (run.model, run.comparison.model, experiment.model) == (
        "trees",
        "head",
        "trees",
    )
    assert [one.save_dir for one in experiment.model_runs()] == ["replicate1/trees1"]
    for options in ({"model": "head"}, {"interval": "conformal"}, {"epochs": 1}):
        asked = experiment_of(table, split, **options)
        assert choose(runs, asked) == (runs, asked)
