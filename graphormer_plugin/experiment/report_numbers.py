"""The numbers behind the report's conclusions."""

from typing import Any

import numpy as np
import pandas as pd

from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.schema import mean_of_defined
from graphormer_plugin.experiment.experiment import FEW_TESTED
from graphormer_plugin.experiment.labelled_molecules import LabelledMolecules
from graphormer_plugin.experiment.results import MetricsOfTest
from graphormer_plugin.experiment.scores import COUNT, main_metric, spread_text


def conclusions(
    table: LabelledMolecules, tested: pd.DataFrame, found: MetricsOfTest
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
    half = most = np.nan
    if metric == "rmse":
        half, most = np.quantile(np.abs(tested.value - tested.label), [0.5, 0.9])
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
        "ratio": far_to_near(tested),
    }


def far_to_near(tested: pd.DataFrame) -> float:
    """Mean error of the half of the `predicted_labels` that is less like the training
    molecules, over the mean of the other half; NaN if all are equally like them."""
    far = tested.in_domain <= tested.in_domain.median()
    if tested.in_domain.isna().any() or far.all() or not tested.error[~far].sum():
        return np.nan
    return float(tested.error[far].mean() / tested.error[~far].mean())
