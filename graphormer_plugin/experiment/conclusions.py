"""What a model is good for, in numbers of which the report's template makes sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.schema import mean_of_defined
from graphormer_plugin.experiment.labelled_table import Table
from graphormer_plugin.experiment.plan import FEW_TESTED
from graphormer_plugin.experiment.results import MetricsOfTest, Run, tested
from graphormer_plugin.experiment.scores import COUNT, main_metric, spread_text
from graphormer_plugin.experiment.worst import relative_errors
from graphormer_plugin.heads.prediction import per_target


def conclusions(
    table: Table, runs: Sequence[Run], found: MetricsOfTest
) -> dict[str, Any]:
    """How good a model is, what to expect of a prediction, and where it fails.

    Returns:
        ``model``, its ``metric``, whether that ``falls`` for better models, and its value
        ``own``, also as ``text``; ``references``, the name, value and text of each;
        ``endpoints``, if two or more of them have `FEW_TESTED` labels, value and name,
        the best first; of a single regression the quantiles of the errors, ``half`` and
        ``most``; ``covered``, the share of the measured values in the intervals of 90 %;
        ``ratio``, see `far_to_near`. NaN where it is unknown.
    """
    metric = main_metric(table.targets).name
    falls = metric not in RISING
    *references, model = [
        (name, mean_of_defined(of[metric]), spread_text(of[metric], metric))
        for name, of in found[""].items()
    ]
    endpoints = [
        (value, name)
        for name in table.targets.names  # in the unit, logarithms have no `metric`
        if (of := found.get(name))
        and mean_of_defined(of[model[0]][COUNT]) >= FEW_TESTED
        if (value := mean_of_defined(of[model[0]][metric])) == value
    ]
    errors = np.concatenate([relative_errors(table, run) for run in runs])
    half = most = np.nan
    if metric == "rmse":
        values, labels = tested(table, runs)
        half, most = np.nanquantile(np.abs(values - labels), [0.5, 0.9])
    return {
        "model": model[0],
        "metric": metric,
        "falls": falls,
        "own": model[1],
        "text": model[2],
        "references": references,
        "endpoints": sorted(endpoints, reverse=not falls),
        "half": half,
        "most": most,
        "covered": mean_of_defined(found[""][model[0]].get("coverage90", ())),
        "ratio": far_to_near(runs, errors),
    }


def far_to_near(runs: Sequence[Run], errors: np.ndarray) -> float:
    """Mean error of the half of the test molecules that is less like the training
    molecules, over the mean of the other half; NaN if all are equally like them."""
    if any(run.predicted.in_domain is None for run in runs):
        return np.nan
    likeness = [
        per_target(run.predicted.in_domain, run.predicted.values)[run.split["test"]]
        for run in runs
    ]
    likeness = [scores[:, : errors.shape[1]] for scores in likeness]
    labelled = ~np.isnan(errors)
    likeness, errors = np.concatenate(likeness)[labelled], errors[labelled]
    far = likeness <= np.median(likeness)
    if far.all() or not np.nansum(errors[~far]):
        return np.nan
    return float(np.nanmean(errors[far]) / np.nanmean(errors[~far]))
