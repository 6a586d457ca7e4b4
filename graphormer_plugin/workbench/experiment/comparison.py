"""Finished experiments on the same splits, compared by Tukey's test for paired values.

Protocol for small molecules of doi:10.1021/acs.jcim.5c01609: five times five folds, the
metric of each test fold, and simultaneous intervals of all differences from the analysis of
variance with repeated measures (method and fold).
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import studentized_range

from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.files import file_sha256, open_to_read
from graphormer_plugin.data.targets import Kind
from graphormer_plugin.workbench.experiment.results import MAJORITY, MEAN, RESULTS_FILE
from graphormer_plugin.workbench.experiment.run import is_finished
from graphormer_plugin.workbench.experiment.split_tables import (
    MOLECULES_FILE,
    split_file,
)
from graphormer_plugin.workbench.figure_style import figure_style
from graphormer_plugin.workbench.predictions.scores import NRMSE

CONFIDENCE = 0.95


class Difference(NamedTuple):
    """Mean difference of two methods.

    Attributes:
        names: the first method, and the second, which is subtracted.
        half: half of the width of its interval of `CONFIDENCE`, which holds for all
            differences together.
        p: Tukey's p-value.
    """

    names: tuple[str, str]
    mean: float
    half: float
    p: float


def fold_metrics(folders: Sequence[Path], metric: str = "") -> tuple[str, pd.DataFrame]:
    """A metric of every test fold, of the chosen models of each folder.

    Args:
        folders: finished experiments on the same table and splits; a single experiment is
            compared with the model beside it.
        metric: column of the results; empty for the main metric of the targets.
    """
    columns: dict[str, pd.Series] = {}
    expected: list[str] = []
    for folder in folders:
        if not is_finished(folder):
            raise DatasetError(f"{folder} is not a finished folder of graphormer-train")
        path = folder / RESULTS_FILE
        with (
            named_damage(f"{path} is damaged", DatasetError),
            open_to_read(path) as file,
        ):
            table = pd.read_csv(file, keep_default_na=False)
            table = table[(table.split == "test") & (table.target == "")]
            files = [MOLECULES_FILE, *map(split_file, range(table.replicate.max()))]
        main = (
            m
            for m in (NRMSE, *(kind.main_metric for kind in Kind))
            if m in {*table.metric}
        )
        metric = metric or next(main)
        table = table[table.metric == metric].set_index("replicate")
        name = str(folder)
        while name in columns:  # the same folder again
            name += "'"
        columns[name] = table[table.chosen == "yes"]["value"]
        digests = [file_sha256(folder / file) for file in files]
        if digests != (expected := expected or digests):
            raise DatasetError(
                f"{folder} has other molecules, labels or splits than {folders[0]}; train "
                "both on one table with the same targets and options of the split"
            )
    if len(folders) == 1:
        others = table[(table.chosen == "no") & ~table.model.isin([MEAN, MAJORITY])]
        columns |= {name: rows["value"] for name, rows in others.groupby("model")}
    values = pd.DataFrame(columns).apply(pd.to_numeric, errors="coerce").dropna()
    if len(values) < 2:
        raise DatasetError(
            f"{metric} has a value in fewer than two test folds; train with --folds 5"
        )
    return metric, values


def differences(values: pd.DataFrame) -> list[Difference]:
    """Differences of all pairs of methods, with Tukey's intervals and p-values.

    The error is the residual mean square of method and fold, with (methods - 1) x
    (folds - 1) degrees of freedom. For two methods this is the paired t-test.
    """
    folds, methods = values.shape
    means = values.mean()
    residuals = values.sub(values.mean(axis=1), axis=0) - (means - means.mean())
    degrees = (methods - 1) * (folds - 1)
    error = np.sqrt((residuals**2).to_numpy().sum() / degrees / folds)
    half = error * studentized_range.ppf(CONFIDENCE, methods, degrees)
    pairs = []
    for a, b in itertools.combinations(values.columns, 2):
        mean = means[a] - means[b]
        statistic = abs(mean) / error if error else np.inf
        p = float(studentized_range.sf(statistic, methods, degrees)) if mean else 1.0
        pairs.append(Difference((a, b), mean, half, p))
    return pairs


@figure_style()
def draw(
    metric: str, values: pd.DataFrame, pairs: Sequence[Difference], file: IO[bytes]
) -> None:
    """PNG of a line per fold through its values with their means, and of the differences
    with their intervals."""
    figure = Figure((10, 1.5 + 0.5 * len(pairs)), layout="constrained")
    fold_axis, pair_axis = figure.subplots(1, 2)
    places = range(values.shape[1])
    fold_axis.plot(values.T, places, ".-", color="0.7", linewidth=0.6, markersize=4)
    fold_axis.plot(values.mean(), places, "D", color="C0")
    fold_axis.set(xlabel=f"{metric} of {len(values)} test folds")
    fold_axis.set(yticks=places, yticklabels=[*values])
    names, means, halves, _ = zip(*pairs, strict=True)
    places = range(len(pairs))
    pair_axis.errorbar(means, places, xerr=halves, fmt="D", color="C0", capsize=3)
    pair_axis.axvline(0, color="0.5", linewidth=0.8)
    pair_axis.set(xlabel=f"difference of {metric}, {CONFIDENCE:.0%} interval")
    pair_axis.set(yticks=places, yticklabels=[f"{a}\n- {b}" for a, b in names])
    for axis in (fold_axis, pair_axis):
        axis.margins(y=0.2)
        axis.invert_yaxis()
    figure.savefig(file, dpi=120, format="png")
