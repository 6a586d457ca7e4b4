"""Whether trees are better than a head on the validation molecules."""

from collections.abc import Sequence
from itertools import compress

import numpy as np

from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.targets import mean_of_defined
from graphormer_plugin.workbench.experiment.labelled_molecules import FEW_TESTED
from graphormer_plugin.workbench.experiment.predictions import Run
from graphormer_plugin.workbench.predictions.scores import main_metrics, scores

DRAWS = 25  # bootstrap samples of the validation molecules
LEAST_ERRORS = 2.0  # standard errors that the trees must be better by (our choice)


def trees_are_better(runs: Sequence[Run], seed: int) -> bool:
    """Whether the model beside is better than the model of each run in the main metric of the
    validation molecules, by more than noise: `LEAST_ERRORS` standard errors, which come
    from bootstrap samples of the molecules, each with all its rows; never by fewer than
    `FEW_TESTED` molecules."""
    table = runs[0].labels.table
    gain = _gain(runs, np.ones(len(table), int))
    valid = np.concatenate([run.labels.rows["valid"] for run in runs])
    few = len(np.unique(table.molecules[valid])) < FEW_TESTED
    if few or not gain > 0:  # also NaN, without validation labels
        return False
    generator = np.random.default_rng(seed)
    draws = [_gain(runs, table.resampled(generator)) for _ in range(DRAWS)]
    return bool(gain > LEAST_ERRORS * np.nanstd(draws))


def _gain(runs: Sequence[Run], times: np.ndarray) -> float:
    """How much the model beside is better on validation rows, each so many ``times``
    [rows]; mean over the kinds of targets, and the runs, that have a value."""
    gains = []
    for run in runs:
        valid = run.labels.rows["valid"]
        rows = np.repeat(np.arange(len(valid)), times[valid])
        targets = run.labels.table.targets
        labels = run.labels.scored("valid")[rows]
        values = [
            scores(
                targets, one.predicted.values[valid[rows]], labels, run.labels.deviation
            )
            for one in (run, run.comparison)
        ]
        of_kinds = []
        for kind, metric in main_metrics(targets).items():
            head, trees = (
                mean_of_defined([*compress(of[metric], targets.are(kind))])
                for of in values
            )
            of_kinds.append(trees - head if metric in RISING else head - trees)
        gains.append(mean_of_defined(of_kinds))
    return mean_of_defined(gains)
